from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.sources.redelivery import Redelivery
from tests.fakes.batches import message_batch

ACTIONS = st.lists(
    st.tuples(st.sampled_from(["publish", "lose link", "restart"]), st.integers(1, 5)), max_size=30
)


@given(ACTIONS, st.data())
def test_over_lost_links_and_restarts_each_message_is_taken_exactly_once(actions, data):
    """A broker twin: ids 1..20, reused once acknowledged; after a lost link it resends with DUP."""
    known, stored, taken = Redelivery(), [], []
    unacknowledged: dict[int, bytes] = {}
    published = 0

    def deliver(messages: dict[int, bytes], *, dup: bool) -> None:
        batch = message_batch([("a", payload) for payload in messages.values()], dup=dup)
        sifted = known.sift(replace(batch, mids=list(messages)))
        taken.extend(sifted.fresh.payloads)
        if sifted.packets is not None:
            stored.append(sifted.packets)

    for action, count in actions:
        if action == "publish":
            free = [mid for mid in range(1, 21) if mid not in unacknowledged][:count]
            fresh = {}
            for mid in free:
                fresh[mid] = b"same" if published % 3 == 0 else b"%d" % published
                published += 1
            unacknowledged |= fresh
            deliver(fresh, dup=False)
        else:
            if action == "restart":  # what was committed is known, nothing else
                known = Redelivery()
                known.restore(tuple(stored))
            deliver(dict(unacknowledged), dup=True)
        done = data.draw(st.lists(st.sampled_from(range(1, 21)), max_size=10))
        for mid in done:
            unacknowledged.pop(mid, None)
    assert len(taken) == published
