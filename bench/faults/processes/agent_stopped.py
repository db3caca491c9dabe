"""F06: SIGTERM under load. What is in hand is stored and acknowledged, and the rest comes again."""

from __future__ import annotations

import asyncio
from typing import Final

from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import field

STOP_S: Final = 5.0


async def agent_stopped(context: DrillContext) -> DrillResult:
    """Each stop takes at most five seconds and ends with code 0, whatever is under way."""
    stops = context.pick(ci=5, soak=20)
    result = DrillResult(repeats=stops)
    slowest_s = 0.0
    async with field(context) as site:
        await site.sensors(rate=2500.0)
        for _ in context.each(stops):
            await asyncio.sleep(context.rng.uniform(0.3, 0.6))
            await site.keep_lag()
            code, seconds = await site.agent.terminate()
            slowest_s = max(slowest_s, seconds)
            result.expect(code == 0, f"the agent ended with {code}")
            await site.agent.start()
        await site.enough(context.pick(ci=20_000, soak=100_000))
        result.balance = await site.settle(timeout_s=60)
        result.lag = await site.loop_lag()
        errors = [line["event"] for line in site.agent.log() if line["level"] == "error"]
        result.expect(not errors, f"errors in the log: {errors[:5]}")
    result.figures["slowest_stop_s"] = round(slowest_s, 2)
    return result.within(slowest_s, STOP_S, "a stop")


DRILL = Drill(
    id="F06",
    name="agent asked to stop under load",
    run=agent_stopped,
    needs=("mosquitto", "nats-server"),
)
