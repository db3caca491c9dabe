"""F16: the stream's quota is used up while the hub stands still; then the hub catches up."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from bench.faults.network.partition import applied_rows
from bench.faults.tap import tap
from bench.stack import waiting_rows

STREAM_BYTES: Final = 1024 * 1024
RATE_PER_S: Final = 3000.0
PER_TRY_S: Final = 5.0
RESUMES_S: Final = 10.0
_FULL_LIMIT_S: Final = 60.0
_POLL_S: Final = 0.05


async def stream_full(context: DrillContext) -> DrillResult:
    """The device keeps everything and asks at most every five seconds; the flow resumes by itself."""
    result = DrillResult(repeats=1)
    watch_s = context.pick(ci=11.0, soak=61.0)
    async with field(context, hub_keys={"nats": {"max_stream_bytes": STREAM_BYTES}}) as site:
        await site.sensors(rate=RATE_PER_S)
        await asyncio.sleep(1.0)
        site.hub.freeze()
        async with tap(site.server) as listening:
            await _refused(site)
            await asyncio.sleep(PER_TRY_S)  # what was on its way has been refused by now
            before = listening.messages
            await asyncio.sleep(watch_s)
            tries = listening.messages - before
        status = await site.status()
        site.hub.thaw()
        began_s = time.monotonic()
        resumed_s = await _resumed(site, beyond=status["outbox"]["lanes"]["tel"]["sent"])
        await site.enough(0)
        result.balance = await site.settle(timeout_s=60)
        result.lag = await site.loop_lag()
    result.figures |= {
        "waiting_rows": waiting_rows(status),
        "tries": tries,
        "watched_s": watch_s,
        "resumed_s": round(resumed_s - began_s, 2),
    }
    result.expect(
        0 < tries <= watch_s / PER_TRY_S + 1,
        f"{tries} tries in {watch_s:g} s, allowed is one in {PER_TRY_S:g} s",
    )
    return result.within(resumed_s - began_s, RESUMES_S, "the flow's return")


async def _refused(site: Site) -> None:
    """Returns once the server has refused a message because the stream is full."""
    async with asyncio.timeout(_FULL_LIMIT_S):
        while True:
            lines = await asyncio.to_thread(site.agent.log)
            if any(
                line["event"] == "outbox_send_failed" and line.get("lane") == "tel"
                for line in lines
            ):
                return
            await asyncio.sleep(_POLL_S)


async def _resumed(site: Site, *, beyond: int) -> float:
    """When the hub's database held a row that the stream had refused."""
    async with asyncio.timeout(_FULL_LIMIT_S):
        while True:
            if await asyncio.to_thread(applied_rows, site) > beyond:
                return time.monotonic()
            await asyncio.sleep(_POLL_S)


DRILL = Drill(
    id="F16",
    name="the stream is full, then the hub catches up",
    run=stream_full,
    needs=("mosquitto", "nats-server"),
)
