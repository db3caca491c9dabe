"""F03: `kill -9` of the hub's nats-server under load. What it had acknowledged is stored once."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import Final

from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field

RECOVERY_S: Final = 5.0


async def server_killed(context: DrillContext) -> DrillResult:
    """After each kill, rows made after the restart are in the hub's database within five seconds."""
    result = DrillResult(repeats=context.repeats)
    taken_s: list[float] = []
    async with field(context) as site:
        await site.sensors(rate=context.pick(ci=2500.0, soak=600.0))
        for _ in context.each(context.repeats):
            await asyncio.sleep(context.rng.uniform(0.3, 0.6))
            await site.server.kill()
            await asyncio.sleep(context.rng.uniform(0.0, 0.3))
            await site.server.start()
            taken_s.append(await recovery_s(site))
        result.expect(site.sending, "the sensors were done before the last kill")
        await site.enough(context.pick(ci=20_000, soak=100_000))
        result.balance = await site.settle(timeout_s=60)
        result.lag = await site.loop_lag()
    result.figures["median_recovery_s"] = round(median(taken_s), 2)
    result.figures["slowest_recovery_s"] = round(max(taken_s), 2)
    return result.within(max(taken_s), RECOVERY_S, "recovery")


async def recovery_s(site: Site, *, timeout_s: float = 30.0) -> float:
    """Seconds from now until a row that is made from now on is known to be in the hub's database."""
    begin_s = time.monotonic()
    goal = await next_row(site)
    async with asyncio.timeout(timeout_s):
        while True:
            if (await site.status())["outbox"]["lanes"]["tel"]["applied"] >= goal:
                return time.monotonic() - begin_s
            await asyncio.sleep(0.05)


async def next_row(site: Site) -> int:
    """The number that the next row of readings will get."""
    return int((await site.status())["outbox"]["lanes"]["tel"]["next_seq"])


DRILL = Drill(
    id="F03",
    name="nats-server killed under load",
    run=server_killed,
    needs=("mosquitto", "nats-server"),
)
