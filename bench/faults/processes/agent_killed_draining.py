"""F02: `kill -9` of the agent while it drains. Sent again is no more than was in flight."""

from __future__ import annotations

import asyncio
from typing import Final

from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import field
from bench.faults.tap import tap
from bench.stack import waiting_rows
from edge_agent.rehearse.proxy import Shape

IN_FLIGHT: Final = 4
FAR: Final = Shape(latency_s=0.1)


async def agent_killed_draining(context: DrillContext) -> DrillResult:
    """The hub is 200 ms away, so that up to four messages are on their way when a kill comes."""
    result = DrillResult(repeats=context.repeats)
    kills_in_time = 0
    async with field(context, begin=False, distant=True) as site:
        await site.agent.start()
        await site.sensors(rate=8000.0)
        await site.enough(context.pick(ci=20_000, soak=60_000))
        await site.taken()
        await site.server.start()
        await site.hub.start()
        await site.sensors(rate=1000.0)
        async with tap(site.server) as listening:
            assert site.link is not None
            site.link.shape(FAR)
            for _ in context.each(context.repeats):
                await listening.next_message(timeout_s=10)
                await asyncio.sleep(context.rng.uniform(0.0, 0.3))
                kills_in_time += waiting_rows(await site.status()) > 0
                await site.kill_agent()
                await site.agent.start()
            await site.link.mend()
            await site.enough(context.pick(ci=25_000, soak=100_000))
            result.balance = await site.settle(timeout_s=60)
            again, per_kill = listening.again, listening.again / context.repeats
            result.figures |= {
                "messages": listening.messages,
                "messages_again": again,
                "rows_again": listening.rows_again,
                "again_per_kill": round(per_kill, 2),
            }
        result.lag = await site.loop_lag()
    result.expect(
        again <= IN_FLIGHT * context.repeats,
        f"{again} messages went again after {context.repeats} kills; {IN_FLIGHT} are in flight",
    )
    result.expect(again > 0, "no kill met a message that was on its way")
    result.expect(
        kills_in_time == context.repeats,
        f"{context.repeats - kills_in_time} kills came when nothing waited",
    )
    return result


DRILL = Drill(
    id="F02",
    name="agent killed while draining",
    run=agent_killed_draining,
    needs=("mosquitto",),
)
