"""Devices that start without a hub, and go on without one for days; then the hub appears for the first time."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final

from bench.faults.backlog.sped import start_pace
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from bench.faults.network.broker_link import broker_link
from bench.stack import Keys

DAY_S: Final = 86_400.0
DAYS: Final = 3.0
MAX_BYTES: Final = 2 * 1024 * 1024
RAW_DAYS: Final = 1.0
ROLLUP_S: Final = 3600.0
"""By the device's clock: sensors that send every few seconds and a minute's rollups keep the same proportion."""
RATE_PER_S: Final = 1000.0
_DRAIN_S: Final = 60.0


async def offline_boots(context: DrillContext) -> DrillResult:
    """Started without broker and hub, killed and started again several times: everything arrives."""
    result = DrillResult(repeats=context.pick(ci=3, soak=20))
    async with field(context, begin=False) as site, broker_link(site) as way:
        await way.cut()
        await site.agent.start_without_broker()
        await asyncio.sleep(1.0)
        await way.mend()
        await site.agent.status_when(lambda now: now["brokers"][0]["connected"])
        await site.sensors(rate=RATE_PER_S)
        for number in context.each(result.repeats):
            await asyncio.sleep(context.rng.uniform(0.5, 1.5))
            await site.kill_agent()
            if number % 2:  # the broker is away too while the device boots
                await way.cut()
                await site.agent.start_without_broker()
                await way.mend()
            else:
                await site.agent.start()
        await site.enough(context.pick(ci=5_000, soak=50_000))
        await site.taken()
        await site.kill_agent()
        await site.agent.start()
        await _hub_appears(site, result)
    return result


async def three_days(context: DrillContext) -> DrillResult:
    """More than the outbox may hold, for longer than raw readings are kept; with reboots in between."""
    result = DrillResult(repeats=1)
    real_s = context.pick(ci=15.0, soak=120.0)
    pace_file = context.folder / "pace.json"
    prefix = (sys.executable, "-m", "bench.faults.backlog.sped", str(pace_file))
    keys: Keys = {
        "outbox": {"max_bytes": MAX_BYTES, "rollup_interval_s": ROLLUP_S},
        "outbox.budgets.raw": {"max_age_s": RAW_DAYS * DAY_S},
    }
    pace = start_pace(DAYS * DAY_S / real_s, wall_s=time.time(), path=pace_file)
    async with field(context, begin=False, agent_prefix=prefix, agent_keys=keys) as site:
        await site.agent.start()
        await site.sensors(rate=2 * RATE_PER_S)
        for _ in context.each(3):
            await asyncio.sleep(real_s / 3)
            await site.kill_agent()
            await site.agent.start()
        await site.enough(0)
        # Rows are given up once a minute of the device, not of ours: let it see the last ones.
        await asyncio.sleep(1.0)
        status = await site.status()
        result.figures |= {
            "days": round(pace.passed_s() / DAY_S, 2),
            "outbox_kb": status["outbox"]["bytes"] // 1024,
        }
        await site.kill_agent()
        start_pace(1.0, wall_s=pace.now_s(), path=pace_file)
        await site.agent.start()
        await _hub_appears(site, result)
    assert result.balance is not None
    result.figures["declared_share"] = round(
        result.balance.declared / max(1, result.balance.acknowledged), 3
    )
    result.expect(result.balance.declared, "nothing was given up: the budgets were not met")
    result.expect(
        status["outbox"]["bytes"] <= MAX_BYTES, f"the outbox took {status['outbox']['bytes']} bytes"
    )
    return result


async def _hub_appears(site: Site, result: DrillResult) -> None:
    await site.server.start()
    await site.hub.start()
    began_s = time.monotonic()
    result.balance = await site.settle(timeout_s=_DRAIN_S)
    result.figures["drained_s"] = round(time.monotonic() - began_s, 1)
    result.lag = await site.loop_lag()


BOOTS = Drill(
    id="B03",
    name="boot and reboot while offline",
    run=offline_boots,
    needs=("mosquitto", "nats-server"),
)
THREE_DAYS = Drill(
    id="B04",
    name="three days offline with a small outbox",
    run=three_days,
    needs=("mosquitto", "nats-server"),
)
