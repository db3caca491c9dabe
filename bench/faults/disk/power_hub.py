"""F13: the power of the hub's database fails. The watermark is never ahead of what is durable."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

from bench.faults.disk.files import quick_check, rows_of_copy
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import field
from bench.faults.powercut.disk import PowerCutDisk

_COUNT = "SELECT count(*) FROM telemetry"
_SETTLED = """
SELECT seq, seq FROM telemetry WHERE lane = 'tel' AND epoch = '{0}'
UNION SELECT seq, seq FROM rollups WHERE lane = 'tel' AND epoch = '{0}'
UNION SELECT first, last FROM gaps WHERE gap_lane = 'tel' AND gap_epoch = '{0}' ORDER BY 1, 2
"""


async def power_of_the_hub(context: DrillContext) -> DrillResult:
    """After each cut, what the device was told is compared with what the database then holds."""
    cuts = context.pick(ci=5, soak=20)
    result = DrillResult(repeats=cuts)
    ahead, rows_back = 0, 0
    root = context.folder / "hub" / "data"
    async with (
        PowerCutDisk(context.folder / "disk", root=root) as disk,
        field(context, begin=False) as site,
    ):
        await site.start()
        await site.sensors(rate=1500.0)
        for number in context.each(cuts):
            await asyncio.sleep(context.rng.uniform(0.6, 1.2))
            before = (await asyncio.to_thread(site.hub.rows, _COUNT))[0][0]
            await disk.cut(torn_seed=context.rng.randrange(1 << 30) if number % 2 else None)
            await site.hub.kill()
            told = await site.status()  # the hub is dead: nothing more can be told
            await disk.mount()
            for wrong in await asyncio.to_thread(quick_check, root):
                result.faults.append(f"after cut {number + 1}, {wrong}")
            durable = await asyncio.to_thread(_durable, root / "hub.db", told["outbox"]["epoch"])
            if told["outbox"]["lanes"]["tel"]["applied"] > durable:
                ahead += 1
            now = await asyncio.to_thread(_asked, root / "hub.db", _COUNT)
            rows_back += max(0, before - (now[0][0] if now else 0))
            await site.hub.start()
        result.expect(site.sending, "the sensors were done before the last cut")
        await site.enough(context.pick(ci=10_000, soak=50_000))
        result.balance = await site.settle(timeout_s=90)
        result.lag = await site.loop_lag()
    result.figures |= {"watermark_ahead": ahead, "rows_taken_back": rows_back}
    result.expect(
        not ahead, f"the device's watermark was ahead of the database in {ahead} of {cuts} cuts"
    )
    result.expect(
        not rows_back, f"{rows_back} rows that a reader had seen committed were gone after a cut"
    )
    return result


def _durable(database: Path, epoch: str) -> int:
    """Up to which row of the lane everything is stored or declared."""
    reached = 0
    for first, last in _asked(database, _SETTLED.format(epoch)):
        if first > reached + 1:
            break
        reached = max(reached, last)
    return reached


def _asked(database: Path, statement: str) -> list[tuple[Any, ...]]:
    """The rows of the answer; none where the database has lost its tables."""
    try:
        return rows_of_copy(database, statement)
    except sqlite3.DatabaseError:
        return []


DRILL = Drill(
    id="F13",
    name="power cut of the hub's database",
    run=power_of_the_hub,
    needs=("mosquitto", "fusermount3"),
    ci_limit_s=180,
)
