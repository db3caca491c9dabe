"""F09: the kernel kills the agent for want of memory. It is up again soon, and nothing is lost."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Final

from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from bench.faults.memory_cage import MemoryCage

UP_S: Final = 5.0
BURST_S: Final = 1.0
SQUEEZES: Final = 10


async def agent_out_of_memory(context: DrillContext) -> DrillResult:
    """The memory shrinks under load until a page is refused; the restart has room again."""
    result = DrillResult(repeats=context.pick(ci=5, soak=20))
    slowest_s = 0.0
    with MemoryCage("skerry-f09") as cage:
        async with field(context, agent_prefix=cage.prefix) as site:
            await site.sensors(rate=1500.0)
            for number in context.each(result.repeats):
                await asyncio.sleep(context.rng.uniform(0.3, 0.6))
                await site.keep_lag()
                code = await _squeezed(site, cage)
                result.expect(code == -signal.SIGKILL, f"the agent ended with {code}")
                result.expect(cage.kills == number + 1, f"{cage.kills} kills by the kernel")
                await asyncio.to_thread(cage.loosen)
                begin_s = time.monotonic()
                await site.agent.start()
                slowest_s = max(slowest_s, time.monotonic() - begin_s)
            await site.enough(context.pick(ci=15_000, soak=60_000))
            result.balance = await site.settle(timeout_s=60)
            result.lag = await site.loop_lag()
    result.figures["slowest_restart_s"] = round(slowest_s, 2)
    return result.within(slowest_s, UP_S, "a restart")


async def _squeezed(site: Site, cage: MemoryCage) -> int:
    """Takes memory away while messages pile up, until the kernel has ended the agent; its exit code."""
    for _ in range(SQUEEZES):
        site.agent.freeze()
        await asyncio.to_thread(cage.tighten)
        await asyncio.sleep(BURST_S)
        site.agent.thaw()  # what has come meanwhile needs memory, all at once
        try:
            return await site.agent.ended(timeout_s=1.0)
        except TimeoutError:
            continue
    raise TimeoutError(f"the agent got by without memory through {SQUEEZES} squeezes")


DRILL = Drill(
    id="F09",
    name="agent killed for want of memory",
    run=agent_out_of_memory,
    needs=("mosquitto", "nats-server"),
    root=True,
)
