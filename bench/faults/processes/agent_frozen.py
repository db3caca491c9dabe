"""F07: the agent frozen for a minute (SIGSTOP). It comes back by itself, and nothing is told twice."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field

STEADY_S: Final = 5.0
KEEPALIVE_S: Final = 5
RATE: Final = 500.0
KEYS: Final = {"broker": {"keepalive_s": KEEPALIVE_S}}
"""The broker gives the connection up after one and a half of them, so also within the short tier."""
REPEATED_PER_FREEZE: Final = 20_000
"""What mosquitto may have in flight to one client; more repeats would be a storm."""


async def agent_frozen(context: DrillContext) -> DrillResult:
    """Five seconds after the thaw the agent has taken all that had waited, and is online again."""
    freezes, length_s = context.pick(ci=1, soak=2), context.pick(ci=12.0, soak=60.0)
    result = DrillResult(repeats=freezes)
    slowest_s = 0.0
    async with field(context, agent_keys=KEYS) as site:
        await site.sensors(rate=RATE)
        for _ in context.each(freezes):
            await asyncio.sleep(context.rng.uniform(1.0, 2.0))
            await site.keep_lag()
            site.agent.freeze()
            await asyncio.sleep(length_s)
            waited = await site.acknowledged()
            site.agent.thaw()
            slowest_s = max(slowest_s, await steady_s(site, waited))
            await site.lag.forget()
        await asyncio.sleep(3)
        repeated = (await site.status())["repeated"]
        await site.enough(0)
        result.balance = await site.settle(timeout_s=60)
        result.lag = await site.loop_lag()
    result.figures |= {"slowest_steady_s": round(slowest_s, 2), "repeated_dropped": repeated}
    result.expect(repeated <= REPEATED_PER_FREEZE * freezes, f"{repeated} messages came twice")
    return result.within(slowest_s, STEADY_S, "getting steady")


async def steady_s(site: Site, waited: int, *, timeout_s: float = 30.0) -> float:
    """Seconds from now until all that had waited is taken, and broker and hub are connected."""
    begin_s = time.monotonic()
    async with asyncio.timeout(timeout_s):
        while True:
            status = await site.status()
            connected = all(broker["connected"] for broker in status["brokers"])
            online = status["hub"]["health"] == "online"
            if status["readings"] >= waited and connected and online:
                return time.monotonic() - begin_s
            await asyncio.sleep(0.1)


DRILL = Drill(
    id="F07",
    name="agent frozen",
    run=agent_frozen,
    needs=("mosquitto", "nats-server"),
)
