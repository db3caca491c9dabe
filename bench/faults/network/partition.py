"""F24: the kernel drops every packet between device and server for a minute, then lets them pass."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from bench.faults.network.rules import filtered
from bench.stack import waiting_rows

RATE_PER_S: Final = 50.0
TIMES_INGEST: Final = 5.0
RECONNECT_S: Final = 30.0
_POLL_S: Final = 0.02
_LIMIT_S: Final = 60.0


async def partition(context: DrillContext) -> DrillResult:
    """The outbox takes everything meanwhile, and drains in order, far faster than it was filled."""
    result = DrillResult(repeats=1)
    cut_s = context.pick(ci=12.0, soak=60.0)
    async with field(context, distant=True) as site:
        assert site.link is not None
        await site.sensors(rate=RATE_PER_S)
        await asyncio.sleep(2.0)
        async with filtered(site.link.port):
            for _ in context.each(int(cut_s)):
                await asyncio.sleep(1.0)
            status = await site.status()
            held = waiting_rows(status)
            seen_offline = status["hub"]["health"] == "offline"
        again_s, drain_s = await _drained(site)
        await site.enough(0)
        result.balance = await site.settle(timeout_s=30)
        result.lag = await site.loop_lag()
    per_s = held / max(drain_s, _POLL_S)
    result.figures |= {
        "cut_s": cut_s,
        "held_rows": held,
        "until_drain_begins_s": round(again_s, 2),
        "drain_s": round(drain_s, 2),
        "drain_readings_per_s": round(per_s),
    }
    result.expect(held >= 0.8 * cut_s * RATE_PER_S, f"only {held} rows waited: nothing was cut")
    result.expect(seen_offline, "after the whole cut the link was not known to be offline")
    result.expect(
        per_s >= TIMES_INGEST * RATE_PER_S,
        f"{per_s:.0f} readings/s drained, wanted are {TIMES_INGEST:g} times {RATE_PER_S:g}",
    )
    return result.within(again_s, RECONNECT_S, "the way back to the server")


async def _drained(site: Site) -> tuple[float, float]:
    """Seconds until the first waiting row went, and from then until all that waited had arrived."""
    began_s = time.monotonic()
    first = await asyncio.to_thread(applied_rows, site)
    goal = (await site.status())["outbox"]["lanes"]["tel"]["next_seq"] - 1
    moved_s = None
    async with asyncio.timeout(_LIMIT_S):
        while True:
            applied = await asyncio.to_thread(applied_rows, site)
            now_s = time.monotonic()
            if applied > first and moved_s is None:
                moved_s = now_s
            if applied >= goal and moved_s is not None:
                return moved_s - began_s, now_s - moved_s
            await asyncio.sleep(_POLL_S)


def applied_rows(site: Site) -> int:
    """Up to which number of the lane `tel` the hub's database holds everything; call off the loop."""
    rows = site.hub.rows("SELECT max(applied) FROM watermarks WHERE lane = 'tel'")
    return (rows[0][0] or 0) if rows else 0


DRILL = Drill(
    id="F24",
    name="the network is gone for a minute",
    run=partition,
    needs=("mosquitto", "iptables"),
    root=True,
)
