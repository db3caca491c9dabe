"""Whatever the link does, the hub ends with every row exactly once, or a gap that says why not."""

import asyncio
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.messages import LaneReport
from contract.status import Lane, RowClass
from edge_agent.clock import SystemClock
from edge_agent.outbox import forwarder as forwarding
from edge_agent.outbox.forwarder import Forwarder
from edge_agent.outbox.store import Outbox
from edge_agent.settings import HubSettings, OutboxSettings
from edge_agent.types import Checkpoint, Commit, NewRow, Round
from tests.unit.edge_agent.outbox.hub_twin import HubTwin

CLOCK = SystemClock()
SETTINGS = HubSettings(url="nats://twin", drain_jitter_s=0, publish_timeout_s=1)
KINDS = [RowClass.ALARM, RowClass.VERDICT, RowClass.ESCALATION, RowClass.ROLLUP, RowClass.RAW]


@pytest.fixture(autouse=True, scope="module")
def _short_pauses():
    patch = pytest.MonkeyPatch()
    patch.setattr(forwarding, "_PAUSES_S", (0.001,))
    patch.setattr(forwarding, "_DOWN_POLL_S", 0.001)
    yield
    patch.undo()


async def _exchange(outbox: Outbox, forwarder: Forwarder, twin: HubTwin) -> None:
    state = outbox.state()
    reported = {
        lane.value: LaneReport(state.epoch, one.next_seq, one.sent, one.first_kept)
        for lane, one in state.lanes.items()
    }
    marks = {lane.value: twin.watermark(state.epoch, lane) for lane in Lane}
    await forwarder.on_watermarks(marks, reported=reported)


async def _play(folder: Path, *, seed: int, commits: int, faults: tuple[float, ...]) -> None:
    chance = Random(seed)
    lose, lose_ack, cut = faults
    twin = HubTwin(random=Random(seed), lose=lose, lose_ack=lose_ack, cut=cut)
    stored: set[tuple[Lane, int]] = set()
    for _ in range(2):  # the second time after a restart, with the first one's marks
        outbox = await Outbox.open(folder, settings=OutboxSettings(), clock=CLOCK)
        await outbox.recover()
        forwarder = Forwarder(outbox, twin, device="d", settings=SETTINGS, wake=outbox.committed)
        task = asyncio.create_task(forwarder.run(), name="forwarder under test")
        for n in range(commits):
            rows = tuple(
                NewRow(
                    kind, chance.randbytes(chance.choice([10, 2000, 90_000])), 1, "m" * (n % 3 + 1)
                )
                for kind in chance.choices(KINDS, k=chance.randint(1, 8))
            )
            before = {lane: one.next_seq for lane, one in outbox.state().lanes.items()}
            await outbox.submit(
                Commit(rows=rows, checkpoints=(Checkpoint("s", b"c"),), round=Round.WHOLE)
            )
            for lane, one in outbox.state().lanes.items():
                stored |= {(lane, seq) for seq in range(before[lane], one.next_seq)}
            if chance.random() < 0.3:
                doomed = chance.choice(sorted(stored))
                if doomed not in {(lane, seq) for _, lane, seq in twin.rows}:
                    twin.forget.add(doomed)
            if chance.random() < 0.3:
                await _exchange(outbox, forwarder, twin)
        if chance.random() < 0.5:
            async with asyncio.timeout(20):
                while forwarder.draining():
                    assert not task.done()
                    await asyncio.sleep(0.005)
                    await _exchange(outbox, forwarder, twin)
            assert {(lane, seq) for _, lane, seq in twin.rows} == stored
            assert all(len(set(seqs)) == len(seqs) for seqs in twin.order.values())
            assert outbox.state().dead_letters == 0
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await outbox.close()
    assert twin.most_in_flight <= forwarding.MAX_IN_FLIGHT


@pytest.mark.timeout(120)
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    commits=st.integers(1, 25),
    faults=st.tuples(st.floats(0, 0.4), st.floats(0, 0.4), st.floats(0, 0.3)),
)
def test_the_hub_ends_with_every_row_exactly_once(seed, commits, faults):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_play(Path(folder), seed=seed, commits=commits, faults=faults))
