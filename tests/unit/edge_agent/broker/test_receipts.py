from hypothesis import given
from hypothesis import strategies as st

from edge_agent.broker.receipts import Receipts


def test_one_puback_for_a_message_that_came_twice():
    receipts = Receipts()
    first = receipts.deliver(5, dup=False)
    again = receipts.deliver(5, dup=True)
    assert receipts.settle(5, first)
    assert not receipts.settle(5, again)


def test_a_late_copy_does_not_acknowledge_the_next_message_with_its_id():
    receipts = Receipts()
    first = receipts.deliver(5, dup=False)
    copy = receipts.deliver(5, dup=True)
    assert receipts.settle(5, first)
    other = receipts.deliver(5, dup=False)
    assert not receipts.settle(5, copy)
    assert receipts.settle(5, other)


def test_a_copy_that_crossed_the_puback_needs_none():
    receipts = Receipts()
    receipts.settle(5, receipts.deliver(5, dup=False))
    assert receipts.deliver(5, dup=True) == 0
    assert not receipts.settle(5, 0)


def test_a_new_connection_voids_all_receipts():
    receipts = Receipts()
    old = receipts.deliver(5, dup=False)
    receipts.begin_connection()
    new = receipts.deliver(5, dup=True)
    assert not receipts.settle(5, old)
    assert receipts.settle(5, new)


class Broker:
    """Sends each message until it is acknowledged; a PUBACK must be for the message it is meant for."""

    def __init__(self) -> None:
        self.in_flight: dict[int, int] = {}
        self.next_message = 0

    def send_new(self, mid: int) -> tuple[int, int, bool] | None:
        if mid in self.in_flight:
            return None
        self.next_message += 1
        self.in_flight[mid] = self.next_message
        return mid, self.next_message, False

    def send_again(self, mid: int) -> tuple[int, int, bool] | None:
        message = self.in_flight.get(mid)
        return None if message is None else (mid, message, True)


@given(st.lists(st.tuples(st.sampled_from("nras"), st.integers(1, 3)), max_size=60))
def test_no_message_is_acknowledged_before_it_was_handled(steps: list[tuple[str, int]]):
    """n: a new message, r: a repetition, a: the client acknowledges its oldest, s: PUBACKs arrive."""
    broker, receipts = Broker(), Receipts()
    queue: list[tuple[int, int, int]] = []
    wire: list[int] = []
    handled: set[int] = set()
    for step, mid in steps:
        sent = {"n": broker.send_new, "r": broker.send_again}.get(step, lambda _: None)(mid)
        if sent is not None:
            queue.append((mid, sent[1], receipts.deliver(mid, dup=sent[2])))
        elif step == "a" and queue:
            oldest, message, receipt = queue.pop(0)
            handled.add(message)
            if receipt and receipts.settle(oldest, receipt):
                wire.append(oldest)
        elif step == "s":
            for acknowledged in wire:
                assert broker.in_flight.pop(acknowledged) in handled
            wire.clear()
    for mid, message, receipt in queue:
        handled.add(message)
        if receipt and receipts.settle(mid, receipt):
            wire.append(mid)
    for acknowledged in wire:
        assert broker.in_flight.pop(acknowledged) in handled
    assert not broker.in_flight, "a message would be sent again for ever"
