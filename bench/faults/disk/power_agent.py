"""F11: the power of the device fails while sensors publish. What it acknowledged is in the hub once."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from bench.faults.disk.files import quick_check
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import field
from bench.faults.powercut.disk import PowerCutDisk

UP_S: Final = 3.0


async def power_of_the_agent(context: DrillContext) -> DrillResult:
    """Every other cut is torn: some pages that nobody had synced survive, in any order."""
    cuts = context.pick(ci=5, soak=20)
    result = DrillResult(repeats=cuts)
    slowest_s, unsynced = 0.0, 0
    root = context.folder / "device" / "data"
    async with (
        PowerCutDisk(context.folder / "disk", root=root) as disk,
        field(context, begin=False) as site,
    ):
        await site.start()
        await site.sensors(rate=2000.0)
        for number in context.each(cuts):
            await asyncio.sleep(context.rng.uniform(0.3, 0.6))
            await site.keep_lag()
            unsynced += (await disk.state()).unsynced["bytes"]
            torn = context.rng.randrange(1 << 30) if number % 2 else None
            await disk.cut(torn_seed=torn)
            await site.agent.kill()
            await disk.mount()
            for wrong in await asyncio.to_thread(quick_check, root):
                result.faults.append(f"after cut {number + 1}, {wrong}")
            begin_s = time.monotonic()
            await site.agent.start()
            slowest_s = max(slowest_s, time.monotonic() - begin_s)
        result.expect(site.sending, "the sensors were done before the last cut")
        await site.enough(context.pick(ci=10_000, soak=50_000))
        result.balance = await site.settle(timeout_s=60)
        result.lag = await site.loop_lag()
    result.figures |= {"slowest_restart_s": round(slowest_s, 2), "unsynced_bytes": unsynced}
    result.expect(slowest_s <= UP_S, f"a restart took {slowest_s:.1f} s, allowed are {UP_S:g}")
    return result


DRILL = Drill(
    id="F11",
    name="power cut of the agent's disk",
    run=power_of_the_agent,
    needs=("mosquitto", "fusermount3"),
    ci_limit_s=180,
)
