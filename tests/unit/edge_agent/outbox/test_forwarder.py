import asyncio
from contextlib import asynccontextmanager

import pytest

from contract.encoding import MAX_MESSAGE_BYTES
from contract.messages import LaneReport, Watermark
from contract.status import Lane, RowClass
from edge_agent.errors import Forbidden, LinkError
from edge_agent.outbox.forwarder import Forwarder
from edge_agent.settings import HubSettings
from edge_agent.types import Commit, NewRow
from tests.unit.edge_agent.outbox.conftest import raw, until, whole_round
from tests.unit.edge_agent.outbox.hub_twin import HubTwin

SETTINGS = HubSettings(url="nats://twin", drain_jitter_s=0, publish_timeout_s=1)


@asynccontextmanager
async def forwarding(outbox, twin, settings=SETTINGS):
    forwarder = Forwarder(outbox, twin, device="d", settings=settings, wake=outbox.committed)
    task = asyncio.create_task(forwarder.run(), name="forwarder under test")
    try:
        yield forwarder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert twin.in_flight == 0


def sent(outbox, lane=Lane.TEL) -> int:
    return int(outbox.state().lanes[lane].sent)


async def exchange(outbox, forwarder, twin, *, pending=0):
    """One state exchange, as the agent wires it."""
    state = outbox.state()
    reported = {
        lane: LaneReport(state.epoch, one.next_seq, one.sent, one.first_kept)
        for lane, one in state.lanes.items()
    }
    marks = {lane: twin.watermark(state.epoch, lane, pending=pending) for lane in Lane}
    await forwarder.on_watermarks(marks, reported=reported)


async def test_every_row_arrives_once_and_in_order(open_outbox):
    outbox, twin = await open_outbox(), HubTwin()
    async with forwarding(outbox, twin):
        for _ in range(200):
            await outbox.submit(Commit(rows=(raw(size=3000),)))
        await until(lambda: sent(outbox) == 200)
    assert twin.order[Lane.TEL] == list(range(1, 201))
    assert twin.largest <= MAX_MESSAGE_BYTES


async def test_events_go_before_bulk_and_bulk_before_telemetry(open_outbox):
    outbox, twin = await open_outbox(), HubTwin(connection=0)
    await outbox.submit(
        Commit(
            rows=(raw(), NewRow(RowClass.ESCALATION, b"e", model="m"), NewRow(RowClass.ALARM, b"a"))
        )
    )
    async with forwarding(outbox, twin) as forwarder:
        assert forwarder.draining()
        twin.connection = 1
        await until(lambda: sent(outbox) == 1)
    assert twin.subjects == ["edge.v1.d.evt", "edge.v1.d.bulk.m", "edge.v1.d.tel"]


async def test_after_a_reconnect_only_events_go_at_once(open_outbox):
    outbox, twin = await open_outbox(), HubTwin()
    settings = SETTINGS.model_copy(update={"drain_jitter_s": 3600})
    await outbox.submit(Commit(rows=(raw(), NewRow(RowClass.ALARM, b"a"))))
    async with forwarding(outbox, twin, settings):
        await until(lambda: sent(outbox, Lane.EVT) == 1)
        await asyncio.sleep(0.1)
        assert sent(outbox) == 0


async def test_a_token_bucket_holds_telemetry_back(open_outbox):
    outbox, twin = await open_outbox(), HubTwin()
    settings = SETTINGS.model_copy(update={"drain_bytes_per_s": 100_000})
    for n in range(10):
        await outbox.submit(Commit(rows=(NewRow(RowClass.RAW, bytes(range(256)) * 800, n),)))
    async with forwarding(outbox, twin, settings):
        await asyncio.sleep(0.5)
        assert 1 <= len(twin.order[Lane.TEL]) <= 5


async def test_a_poison_row_is_found_set_aside_and_its_neighbours_arrive(open_outbox):
    outbox, twin = await open_outbox(), HubTwin(poison={(Lane.TEL, 37)})
    await outbox.submit(Commit(rows=(raw(3),) * 100))
    async with forwarding(outbox, twin):
        await until(lambda: sent(outbox) == 100)
        await until(lambda: len(twin.gaps()) == 1)
    assert sorted(twin.order[Lane.TEL]) == [n for n in range(1, 101) if n != 37]
    (gap,) = twin.gaps()
    assert (gap.first, gap.last, gap.readings) == (37, 37, 3)
    assert outbox.state().dead_letters == 1


async def test_a_row_that_is_too_large_alone_is_set_aside(open_outbox):
    import os

    outbox, twin = await open_outbox(), HubTwin()
    big = NewRow(RowClass.RAW, os.urandom(300_000), 2)
    await outbox.submit(Commit(rows=(raw(), big, raw())))
    async with forwarding(outbox, twin):
        await until(lambda: sent(outbox) == 3)
    assert twin.order[Lane.TEL] == [1, 3]
    assert outbox.state().dead_letters == 1


async def test_what_was_acknowledged_and_lost_goes_again_with_a_new_id(open_outbox):
    outbox, twin = await open_outbox(), HubTwin(forget={(Lane.TEL, n) for n in range(20, 31)})
    await outbox.submit(Commit(rows=(raw(),) * 100))
    async with forwarding(outbox, twin) as forwarder:
        await until(lambda: sent(outbox) == 100)
        assert len(twin.rows) == 89
        await exchange(outbox, forwarder, twin)
        await until(lambda: len(twin.rows) == 100)
        await outbox.submit(whole_round())
        await exchange(outbox, forwarder, twin)
        await until(lambda: not outbox.state().lanes[Lane.TEL].rows)
        assert not forwarder.draining()


async def test_a_tail_that_was_acknowledged_and_lost_goes_again(open_outbox):
    outbox, twin = await open_outbox(), HubTwin(forget={(Lane.TEL, n) for n in range(90, 101)})
    await outbox.submit(Commit(rows=(raw(),) * 100))
    async with forwarding(outbox, twin) as forwarder:
        await until(lambda: sent(outbox) == 100)
        await exchange(outbox, forwarder, twin)
        await exchange(outbox, forwarder, twin)
        await until(lambda: len(twin.rows) == 100)


async def test_a_restart_goes_on_where_the_server_had_acknowledged(open_outbox):
    outbox, twin = await open_outbox(), HubTwin()
    await outbox.submit(Commit(rows=(raw(),) * 10))
    async with forwarding(outbox, twin):
        await until(lambda: sent(outbox) == 10)
    await outbox.close()
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(),) * 10))
    async with forwarding(outbox, twin):
        await until(lambda: sent(outbox) == 20)
    assert twin.messages == 2
    assert twin.order[Lane.TEL] == list(range(1, 21))


async def test_rows_the_hub_holds_are_not_sent(open_outbox):
    outbox, twin = await open_outbox(), HubTwin(connection=0)
    await outbox.submit(whole_round(*[raw()] * 10))
    async with forwarding(outbox, twin) as forwarder:
        await forwarder.on_watermarks({"tel": Watermark(outbox.state().epoch, 6)}, reported={})
        twin.connection = 1
        await until(lambda: sent(outbox) == 10)
    assert twin.order[Lane.TEL] == [7, 8, 9, 10]


@pytest.mark.parametrize(
    "error", [LinkError("maximum bytes exceeded"), Forbidden("no permission to publish")]
)
async def test_a_lane_that_nobody_takes_is_tried_once_in_five_seconds_and_loses_nothing(
    open_outbox, error
):
    class Full(HubTwin):
        tries = 0

        async def publish(self, subject, body, *, headers, timeout_s):
            if subject.endswith("tel"):
                Full.tries += 1
                raise error
            await super().publish(subject, body, headers=headers, timeout_s=timeout_s)

    outbox, twin = await open_outbox(), Full()
    await outbox.submit(Commit(rows=(raw(),)))
    async with forwarding(outbox, twin):
        await until(lambda: Full.tries > 0)
        for n in range(5):
            await outbox.submit(Commit(rows=(raw(), NewRow(RowClass.ALARM, b"%d" % n))))
        await until(lambda: sent(outbox, Lane.EVT) == 5)
        await asyncio.sleep(0.3)
    assert Full.tries == 1
    assert outbox.state().dead_letters == 0
    assert outbox.state().lanes[Lane.TEL].rows == 6


async def test_a_forbidden_model_does_not_hold_up_the_bulk_of_others(open_outbox):
    class Guarded(HubTwin):
        async def publish(self, subject, body, *, headers, timeout_s):
            if subject.endswith("bulk.secret"):
                raise Forbidden("no permission to publish")
            await super().publish(subject, body, headers=headers, timeout_s=timeout_s)

    outbox, twin = await open_outbox(), Guarded()
    models = ("secret", "open", "secret", "open")
    rows = tuple(NewRow(RowClass.ESCALATION, b"e", model=model) for model in models)
    await outbox.submit(Commit(rows=rows))
    async with forwarding(outbox, twin):
        await until(lambda: sent(outbox, Lane.BULK) == 4)
    assert twin.order[Lane.BULK] == [2, 4]
    assert outbox.state().dead_letters == 2
