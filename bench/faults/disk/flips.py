"""F20: bits flip in the spool. No wrong row leaves the device; what is damaged is declared, exactly.

Most flips are judged on the outbox itself, which the drill opens, so that hundreds of them take seconds.
Some are judged end to end: a stopped agent's file, then agent, hub and the ledgers.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from structlog.testing import capture_logs

from bench.faults.disk.files import flip_bits
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import field as site_of
from contract.encoding import decode
from contract.messages import Gap
from contract.status import Lane, RowClass
from edge_agent.clock import SystemClock
from edge_agent.outbox.gaps import covers
from edge_agent.outbox.store import Outbox
from edge_agent.settings import OutboxSettings
from edge_agent.types import Checkpoint, Commit, NewRow, StoredRow

COMMITS: Final = 150
_SPOOL: Final = "spool.db"
_Row = tuple[RowClass, bytes, int, str]


@dataclass(slots=True)
class Tally:
    """What all flips together led to."""

    flips: int = 0
    harmless: int = 0
    rows_declared: int = 0
    faults: list[str] = field(default_factory=list)


async def flipped_bits(context: DrillContext) -> DrillResult:
    """One flip each in copies of one spool; then several at once in an agent's own, with a backlog."""
    flips = context.pick(ci=30, soak=300)
    result = DrillResult(repeats=flips)
    clock = await asyncio.to_thread(SystemClock)
    golden = context.folder / "golden"
    given = await _filled(golden, clock, context.rng)
    tally = Tally()
    with capture_logs():  # the outbox tells of each flip
        for number in context.each(flips):
            folder = context.folder / f"flip-{number}"
            await asyncio.to_thread(shutil.copytree, golden, folder)
            offsets = await asyncio.to_thread(flip_bits, folder / _SPOOL, count=1, rng=context.rng)
            await _judge(folder, given, clock, tally, where=f"byte {offsets[0]}")
            await asyncio.to_thread(shutil.rmtree, folder)
    result.faults += tally.faults[:5]
    result.figures |= {
        "flips": tally.flips,
        "harmless": tally.harmless,
        "rows_declared": tally.rows_declared,
        "wrong": len(tally.faults),
    }
    await _end_to_end(context, result)
    return result


async def _end_to_end(context: DrillContext, result: DrillResult) -> None:
    context.say("an agent's own spool")
    bits = context.pick(ci=3, soak=10)
    async with site_of(context, begin=False) as site:
        await site.agent.start()
        await site.sensors(rate=4000.0)
        await site.enough(8_000)
        await site.taken()
        await site.keep_lag()
        await site.agent.stop()
        spool = next(site.agent.data_dir.rglob(_SPOOL))
        await asyncio.to_thread(flip_bits, spool, count=bits, rng=context.rng)
        await site.start()
        result.balance = await site.settle(timeout_s=60)
        result.lag = await site.loop_lag()
    result.figures["flips_end_to_end"] = bits


async def _filled(
    folder: Path, clock: SystemClock, rng: random.Random
) -> dict[Lane, dict[int, _Row]]:
    """An outbox with rows of every lane, closed; what was put in, by number."""
    outbox = await Outbox.open(folder, settings=OutboxSettings(), clock=clock)
    await outbox.recover()
    given: dict[Lane, dict[int, _Row]] = {lane: {} for lane in Lane}
    for number in range(COMMITS):
        rows = [NewRow(RowClass.RAW, rng.randbytes(rng.randrange(50, 3000)), 9) for _ in range(3)]
        if number % 5 == 0:
            rows.append(NewRow(RowClass.ALARM, rng.randbytes(300), 0))
        if number % 7 == 0:
            rows.append(NewRow(RowClass.ESCALATION, rng.randbytes(900), 0, model="toy"))
        state = (Checkpoint("s", rng.randbytes(200)),) if number % 20 == 0 else ()
        await outbox.submit(Commit(rows=tuple(rows), checkpoints=state))
        for row in rows:
            lane = given[row.kind.lane]
            lane[len(lane) + 1] = (row.kind, row.body, row.readings, row.model)
    await outbox.close()
    return given


async def _judge(
    folder: Path,
    given: dict[Lane, dict[int, _Row]],
    clock: SystemClock,
    tally: Tally,
    *,
    where: str,
) -> None:
    """Opens the outbox, reads all that would be sent, and compares."""
    outbox = await Outbox.open(folder, settings=OutboxSettings(), clock=clock)
    try:
        await outbox.recover()
        after = await outbox.submit(Commit(rows=(NewRow(RowClass.RAW, b"new", 1),)))
        found = {lane: await _all_rows(outbox, lane) for lane in (Lane.TEL, Lane.BULK, Lane.EVT)}
    finally:
        await outbox.close()
    gaps = [decode(row.body, Gap) for row in found[Lane.EVT] if row.kind is RowClass.GAP]
    tally.flips += 1
    declared_now = 0
    for lane, rows in given.items():
        kept = {row.seq: (row.kind, row.body, row.readings, row.model) for row in found[lane]}
        new = {seq for seq in kept if seq not in rows}
        wrong = [seq for seq, row in kept.items() if seq in rows and row != rows[seq]]
        wrong += [seq for seq in new if seq != after and kept[seq][0] is not RowClass.GAP]
        missing = {seq for seq in rows if seq not in kept}
        of_lane = [gap for gap in gaps if gap.lane is lane]
        declared = {seq for seq in rows if any(covers(gap, seq) for gap in of_lane)}
        declared_now += len(declared)
        if wrong:
            tally.faults.append(f"{where}: rows {wrong[:3]} of {lane} are not what was stored")
        if missing != declared:
            odd = sorted(missing ^ declared)
            tally.faults.append(
                f"{where}: of {lane} {len(missing)} rows are missing and {len(declared)} declared: {odd[:5]}"
            )
        readings = sum(rows[seq][2] for seq in missing)
        if all(gap.exact for gap in of_lane) and sum(gap.readings for gap in of_lane) != readings:
            tally.faults.append(f"{where}: the gaps of {lane} do not count {readings} readings")
    tally.rows_declared += declared_now
    tally.harmless += not declared_now


async def _all_rows(outbox: Outbox, lane: Lane) -> list[StoredRow]:
    found: list[StoredRow] = []
    after = 0
    while rows := await outbox.read(lane, after=after, max_bytes=200_000, max_rows=200):
        found += rows
        after = rows[-1].seq
    return found


DRILL = Drill(id="F20", name="bits flip in the spool", run=flipped_bits, needs=("mosquitto",))
