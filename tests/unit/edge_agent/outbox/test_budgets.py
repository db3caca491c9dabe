"""What each class may use, how much the packet log may, and what may wait in memory."""

import asyncio
import time

import numpy as np

from contract.messages import Gap
from contract.status import Lane, RowClass
from edge_agent.outbox.recall import LEAST_PACKETS, kept_packets
from edge_agent.types import Commit, NewRow, Packets, Urgency
from tests.unit.edge_agent.outbox.conftest import CLOCK, raw, whole_round
from tests.unit.edge_agent.outbox.ledger import gaps_of, rows_of

MIB = 1024 * 1024


async def kinds_in(outbox, lane):
    return [row.kind for row in await rows_of(outbox, lane)]


async def test_a_class_over_its_share_gives_way_although_there_is_room(open_outbox):
    outbox = await open_outbox(max_bytes=4 * MIB, budgets={"verdict": {"share": 0.02}})
    for n in range(200):
        await outbox.submit(
            Commit(rows=(NewRow(RowClass.VERDICT, b"%03d" % n * 300), NewRow(RowClass.ALARM, b"!")))
        )
    kept = [row for row in await rows_of(outbox, Lane.EVT) if row.kind is RowClass.VERDICT]
    assert 0 < sum(len(row.body) + 64 for row in kept) <= 0.02 * 4 * MIB
    assert kept[-1].body[:3] == b"199"
    assert (await kinds_in(outbox, Lane.EVT)).count(RowClass.ALARM) == 200
    lost = outbox.state().shed["verdict_rows"]
    assert lost == 200 - len(kept)


async def test_each_class_has_its_own_age(open_outbox):
    outbox = await open_outbox(
        budgets={"verdict": {"max_age_s": 100}, "rollup": {"max_age_s": 5000}}
    )
    rows = [
        NewRow(kind, b"x", 1 if kind is RowClass.RAW else 0)
        for kind in (RowClass.RAW, RowClass.ROLLUP, RowClass.VERDICT, RowClass.ALARM)
    ]
    await outbox.submit(whole_round(*rows))
    outbox._files._clock = Later(1000)
    await outbox._owner.do(outbox._files.expire)
    assert await kinds_in(outbox, Lane.TEL) == [RowClass.RAW, RowClass.ROLLUP]
    assert await kinds_in(outbox, Lane.EVT) == [RowClass.ALARM, RowClass.GAP]
    outbox._files._clock = Later(6000)
    # The forwarder has seen the rest by now: what the hub may hold is not declared as lost.
    await outbox._owner.do(outbox._files.expire)
    assert await kinds_in(outbox, Lane.TEL) == [RowClass.RAW, RowClass.ROLLUP]
    assert await gaps_of(outbox, Lane.EVT) == [Gap(Lane.EVT, 1, 1, 1, 0, "age")]


async def test_a_jump_of_the_wall_clock_makes_nothing_old(open_outbox):
    outbox = await open_outbox(
        budgets={kind: {"max_age_s": 3600} for kind in ("raw", "rollup", "verdict", "alarm")}
    )
    await outbox.submit(whole_round(raw(), NewRow(RowClass.VERDICT, b"v")))
    for days in (400, -400, -20_000):
        outbox._files._clock = Later(0, wall_s=days * 86400)
        assert await outbox._owner.do(outbox._files.expire) is False
    assert outbox.state().shed == {}


async def test_packet_ids_use_a_sixteenth_of_a_small_quota(open_outbox):
    outbox = await open_outbox(max_bytes=MIB)
    for n in range(300):
        ids = np.arange(n * 50 + 1, n * 50 + 51).astype(np.uint16)
        await outbox.submit(Commit(packets=(Packets("s", ids, ids.astype(np.uint64)),)))
    await outbox.close()
    recovery = await (await open_outbox(max_bytes=MIB)).recover()
    kept = sum(len(one.mids) for one in recovery.packets)
    assert LEAST_PACKETS <= kept <= 2 * kept_packets(MIB)
    assert recovery.packets[-1].mids[-1] == 15_000
    assert kept_packets(512 * MIB) == 65_536


async def test_one_id_a_commit_still_keeps_the_newest_2048(open_outbox):
    outbox = await open_outbox(max_bytes=MIB)
    for n in range(2500):
        ids = np.array([n + 1], np.uint16)
        await outbox.ready()
        future = outbox.submit(Commit(packets=(Packets("s", ids, ids.astype(np.uint64)),)))
        if n % 5 == 0:
            await future
    await outbox.close()
    recovery = await (await open_outbox(max_bytes=MIB)).recover()
    kept = [mid for one in recovery.packets for mid in one.mids.tolist()]
    assert kept[-2048:] == list(range(453, 2501))


async def test_what_may_wait_is_stored_together_within_a_second(open_outbox):
    outbox = await open_outbox()
    began = time.monotonic()
    number = outbox._owner.head.number
    futures = []
    for _ in range(20):
        futures.append(outbox.submit(Commit(rows=(raw(),), urgency=Urgency.SOON)))
        await asyncio.sleep(0.01)
    assert not any(future.done() for future in futures)
    await asyncio.gather(*futures)
    assert 0.7 < time.monotonic() - began < 3
    assert outbox._owner.head.number == number + 1


async def test_what_may_wait_goes_with_what_may_not_and_never_beyond_256_kib(open_outbox):
    outbox = await open_outbox()
    waiting = outbox.submit(Commit(rows=(raw(),), urgency=Urgency.SOON))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    assert await asyncio.wait_for(outbox.submit(Commit(rows=(raw(),))), 0.5) == 2
    assert waiting.result() == 1
    large = outbox.submit(Commit(rows=(raw(size=300_000),), urgency=Urgency.SOON))
    assert await asyncio.wait_for(large, 0.5) == 3


async def test_closing_stores_what_may_wait(open_outbox):
    outbox = await open_outbox()
    waiting = outbox.submit(Commit(rows=(raw(),), urgency=Urgency.SOON))
    await outbox.close()
    assert waiting.result() == 1


class Later:
    """A clock that is ahead of the real one."""

    def __init__(self, mono_s: float, *, wall_s: float = 0.0) -> None:
        self._ahead = mono_s, wall_s

    def wall_s(self) -> float:
        return CLOCK.wall_s() + self._ahead[1]

    def mono_ns(self) -> int:
        return CLOCK.mono_ns() + int(self._ahead[0] * 1e9)
