import asyncio
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.encoding import decode
from contract.messages import Escalation
from contract.status import Reason, RowClass, Tier
from edge_agent.agent.asking import MOST_ASKS, Asker
from tests.fakes.asks import Record, ask_of
from tests.fakes.hubs import LATE, Behaviour, HubTwin

B = Behaviour


async def ended(asker: Asker, *, within_s: float = 2.0) -> None:
    async with asyncio.timeout(within_s):
        while asker.in_flight:
            await asyncio.sleep(0.002)


async def run(*behaviours: Behaviour, queue: bool = True) -> Record:
    record = Record()
    asker = record.asker(HubTwin(*behaviours), queue=queue, late_s=0.5)
    slow = {B.SILENCE, *LATE} & set(behaviours)
    asker.start(ask_of(1, 2, wait_s=0.02 if slow else 30.0))
    await ended(asker)
    assert not asker.failed.done()
    return record


def queued(record: Record) -> list[str]:
    assert all(row.kind is RowClass.ESCALATION and row.model == "tiny" for row in record.rows)
    return [decode(row.body, Escalation).verdict for row in record.rows]


async def test_an_answer_in_time_is_the_final_verdict_of_the_tier_hub():
    hub, record = HubTwin(B.ANSWER), Record()
    asker = record.asker(hub)
    asker.start(ask_of(1, 2, wait_s=5.0))
    await ended(asker)
    assert [(v.id, v.tier, v.label, v.score, v.release) for v in record.final] == [
        ("pump/a-1", Tier.HUB, "hub", 7.0, 9),
        ("pump/a-2", Tier.HUB, "hub", 7.0, 9),
    ]
    assert record.final[0].reasons == (Reason.UNCERTAIN, Reason.HUB_ANSWERED)
    assert record.final[0].stages_ms["hub"] >= 0
    assert record.steps == ["settle"]
    (request,) = hub.requests
    assert (request.model, request.release, request.features.shape) == ("tiny", 7, (2, 2))
    assert request.stream == "pump/a"
    assert 4000 < hub.budgets_ms[0] <= 5000


async def test_when_the_time_is_over_the_local_answer_is_given_and_a_late_one_is_a_revision():
    record = Record()
    asker = record.asker(HubTwin(B.LATE, late_s=0.15), late_s=5.0)
    begin = time.monotonic()
    asker.start(ask_of(1, 2))
    while not record.final:
        await asyncio.sleep(0.001)
    assert time.monotonic() - begin > 0.025
    assert [v.tier for v in record.final] == [Tier.MODEL] * 2
    assert record.final[0].reasons == (Reason.UNCERTAIN, Reason.HUB_TIMEOUT)
    await ended(asker)
    assert record.steps == ["settle", "revise"]
    assert [(r.verdict, r.label, r.release) for r in record.revisions] == [
        ("pump/a-1", "hub", 9),
        ("pump/a-2", "hub", 9),
    ]
    assert queued(record) == []


@pytest.mark.parametrize("behaviour", [B.NO_RESPONDERS, B.LINK_DOWN, B.CANCELLED])
async def test_without_a_hub_the_local_answer_is_given_at_once(behaviour):
    record = Record()
    asker = record.asker(HubTwin(behaviour))
    asker.start(ask_of(1, 2, wait_s=30.0))
    await ended(asker)
    assert record.final[0].reasons[-2:] == (Reason.HUB_OFFLINE, Reason.BULK_ESCALATED)
    assert queued(record) == ["pump/a-1", "pump/a-2"]


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [(B.BUSY, Reason.HUB_BUSY), (B.EXPIRED, Reason.HUB_TIMEOUT), (B.TIMEOUT, Reason.HUB_TIMEOUT)],
)
async def test_a_hub_that_cannot_now_is_asked_again_through_the_queue(behaviour, reason):
    record = await run(behaviour)
    assert record.final[0].tier is Tier.MODEL
    assert record.final[0].reasons[-2:] == (reason, Reason.BULK_ESCALATED)
    assert queued(record) == ["pump/a-1", "pump/a-2"]


@pytest.mark.parametrize(
    "behaviour", [B.BAD_BODY, B.WRONG_ROWS, B.NOT_FINITE, B.NO_MODEL, B.TOO_LARGE]
)
async def test_an_answer_that_is_none_leaves_the_local_one_and_is_not_asked_for_again(behaviour):
    record = await run(behaviour)
    assert [v.label for v in record.final] == ["local", "local"]
    assert record.final[0].reasons == (Reason.UNCERTAIN, Reason.HUB_REFUSED)
    assert record.rows == []


async def test_silence_leaves_the_local_answer_queues_the_window_and_tells_the_hub():
    hub, record = HubTwin(B.SILENCE), Record()
    asker = record.asker(hub)
    asker.start(ask_of(1))
    await ended(asker)
    assert len(record.final) == 1
    assert queued(record) == ["pump/a-1"]
    assert record.revisions == []


async def test_a_late_refusal_is_queued_only_if_asking_again_could_help():
    assert queued(await run(B.LATE_BUSY)) == ["pump/a-1", "pump/a-2"]
    assert queued(await run(B.LATE_NO_MODEL)) == []


async def test_nothing_is_queued_where_the_operator_says_no():
    for behaviour in (B.BUSY, B.NO_RESPONDERS, B.SILENCE):
        record = await run(behaviour, queue=False)
        assert len(record.final) == 2
        assert record.rows == []
        assert Reason.BULK_ESCALATED not in record.final[0].reasons


async def test_closing_gives_the_local_answers_to_all_that_wait():
    record = Record()
    hub = HubTwin(B.SILENCE)
    asker = record.asker(hub)
    for number in range(5):
        asker.start(ask_of(number, wait_s=30.0))
    await asyncio.sleep(0.005)
    await asyncio.wait_for(asker.close(), 1.0)
    assert sorted(v.number for v in record.final) == [0, 1, 2, 3, 4]
    assert len(queued(record)) == 5
    assert asker.in_flight == 0
    assert len(hub.given_up) == 5, "the hub is told that nobody waits"


async def test_after_closing_an_ask_is_answered_here():
    record = Record()
    hub = HubTwin(B.ANSWER)
    asker = record.asker(hub)
    await asker.close()
    asker.start(ask_of(1))
    assert [v.label for v in record.final] == ["local"]
    assert hub.requests == []


async def test_no_more_requests_are_in_flight_than_the_limit():
    record = Record()
    hub = HubTwin(B.SILENCE)
    asker = record.asker(hub)
    for number in range(MOST_ASKS + 10):
        asker.start(ask_of(number, wait_s=30.0))
    assert asker.in_flight == MOST_ASKS
    assert [v.number for v in record.final] == list(range(MOST_ASKS, MOST_ASKS + 10))
    assert record.final[0].reasons[-1] is Reason.HUB_BUSY
    await asyncio.sleep(0.005)
    assert len(hub.requests) == MOST_ASKS
    await asker.close()
    assert sorted(v.number for v in record.final) == list(range(MOST_ASKS + 10))


async def test_a_deadline_that_has_passed_still_gets_an_answer():
    record = Record()
    asker = record.asker(HubTwin(B.SILENCE))
    asker.start(ask_of(1, wait_s=-1.0))
    await ended(asker)
    assert [v.label for v in record.final] == ["local"]


async def test_an_error_that_nobody_expected_is_told():
    record = Record()
    asker = record.asker(HubTwin(B.CRASH))
    asker.start(ask_of(1))
    await ended(asker)
    with pytest.raises(RuntimeError, match="crash"):
        await asker.watch()


HONEST = [behaviour for behaviour in B if behaviour is not B.CRASH]


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.sampled_from(HONEST), st.integers(1, 3)), min_size=1, max_size=12),
    st.sampled_from([None, 0.0, 0.01, 0.05]),
)
def test_whatever_the_hub_does_each_window_gets_exactly_one_final_verdict(plan, close_after_s):
    async def scenario() -> None:
        record, number = Record(), 0
        hub = HubTwin(*[behaviour for behaviour, _ in plan], late_s=0.03)
        asker = record.asker(hub, late_s=0.04)
        for _, windows in plan:
            asker.start(ask_of(*range(number, number + windows), wait_s=0.02))
            number += windows
        if close_after_s is None:
            await ended(asker)
        else:
            await asyncio.sleep(close_after_s)
            await asker.close()
        assert sorted(v.number for v in record.final) == list(range(number))
        assert len({row.body for row in record.rows}) == len(record.rows)
        revised = {revision.verdict for revision in record.revisions}
        assert not revised & set(queued(record)), "a window is revised or queued, not both"
        assert not asker.failed.done()
        assert asker.in_flight == 0

    asyncio.run(scenario())
