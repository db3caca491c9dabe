"""F01: `kill -9` of the agent while sensors publish. What it acknowledged is in the hub once."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import field

UP_S: Final = 3.0


async def agent_killed(context: DrillContext) -> DrillResult:
    """Kills 0.3 to 0.6 s after each readiness; every restart is ready within three seconds."""
    result = DrillResult(repeats=context.repeats)
    slowest_s = 0.0
    async with field(context) as site:
        await site.sensors(rate=context.pick(ci=2500.0, soak=900.0))
        for _ in context.each(context.repeats):
            await asyncio.sleep(context.rng.uniform(0.3, 0.6))
            await site.kill_agent()
            begin_s = time.monotonic()
            await site.agent.start()
            slowest_s = max(slowest_s, time.monotonic() - begin_s)
        result.expect(site.sending, "the sensors were done before the last kill")
        await site.enough(context.pick(ci=20_000, soak=100_000))
        result.balance = await site.settle(timeout_s=60)
        result.lag = await site.loop_lag()
    result.figures["slowest_restart_s"] = round(slowest_s, 2)
    return result.within(slowest_s, UP_S, "a restart")


DRILL = Drill(
    id="F01",
    name="agent killed while ingesting",
    run=agent_killed,
    needs=("mosquitto",),
)
