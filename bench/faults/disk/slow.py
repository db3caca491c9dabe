"""F19: each fsync takes 50, 500, 2,000 ms. Commits grow, the event loop stays free."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from bench.faults.disk.watching import decided
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from bench.faults.powercut.disk import PowerCutDisk
from bench.faults.powercut.rules import Call, Rule

DELAYS_MS: Final = (50, 500, 2000)
LEAST_PER_S: Final = 1000.0
"""Readings a second that must become durable at 50 ms a sync."""


async def slow_disk(context: DrillContext) -> DrillResult:
    """Several thousand readings a second are offered; what is stored is counted while there is no hub."""
    result = DrillResult(repeats=len(DELAYS_MS))
    root = context.folder / "device" / "data"
    async with (
        PowerCutDisk(context.folder / "disk", root=root) as disk,
        field(context, begin=False) as site,
    ):
        await site.agent.start()
        await site.sensors(rate=4000.0)
        for delay_ms in DELAYS_MS:
            context.say(f"{delay_ms} ms")
            await disk.set_rules(Rule((Call.SYNC,), delay_ms=delay_ms))
            per_s, answer_ms, verdicts = await _measured(
                site, seconds=context.pick(ci=4, soak=15), settle_s=delay_ms / 500
            )
            result.figures |= {
                f"readings_per_s_at_{delay_ms}_ms": round(per_s),
                f"status_ms_at_{delay_ms}_ms": round(answer_ms, 1),
            }
            result.expect(verdicts > 0, f"no verdict at {delay_ms} ms")
        await disk.set_rules()
        await site.start()
        await site.enough(0)
        result.balance = await site.settle(timeout_s=90)
        result.lag = await site.loop_lag()
    per_s = float(result.figures["readings_per_s_at_50_ms"])
    result.expect(
        per_s >= LEAST_PER_S,
        f"{per_s:.0f} readings a second were stored at 50 ms, promised are {LEAST_PER_S:.0f}",
    )
    return result


async def _measured(site: Site, *, seconds: float, settle_s: float) -> tuple[float, float, int]:
    """Readings stored a second, the slowest answer to a question in ms, and verdicts given."""
    await asyncio.sleep(settle_s)
    begin_s, before, given = time.monotonic(), await _stored(site), await decided(site)
    slowest_s = 0.0
    while time.monotonic() - begin_s < seconds:
        asked_s = time.monotonic()
        await site.status()
        slowest_s = max(slowest_s, time.monotonic() - asked_s)
        await asyncio.sleep(0.1)
    stored = await _stored(site) - before
    took_s = time.monotonic() - begin_s
    return stored / took_s, slowest_s * 1e3, await decided(site) - given


async def _stored(site: Site) -> int:
    lanes = (await site.status())["outbox"]["lanes"]
    return int(lanes["tel"]["readings"])


DRILL = Drill(
    id="F19",
    name="slow disk",
    run=slow_disk,
    needs=("mosquitto", "fusermount3"),
    ci_limit_s=180,
)
