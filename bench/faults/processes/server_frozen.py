"""F08: the hub's nats-server frozen (SIGSTOP): noticed, and the device answers as fast as before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from statistics import median
from typing import Final

from bench.agent import NAME, PROBE
from bench.faults.backlog.live import latencies_during
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import STREAMS, Site, field
from bench.latency import percentile
from bench.stack import SIMULATED

DETECTED_S: Final = 30.0
SLOWER: Final = 1.10
TIMER_MS: Final = 1.0
"""What the kernel's timers and the scheduler of a small machine add by chance."""
PROBES_PER_S: Final = 100
SLICE: Final = 200
PROBES: Final = f"""
[[stream]]
name = "probe/{{1}}"
topic = "{PROBE}/+"
time = "recorded"
{SIMULATED}
window = 8
hop = 1
"""


async def server_frozen(context: DrillContext) -> DrillResult:
    """Phases with and without the server take turns, so that the machine's moods meet both."""
    turns = context.pick(ci=2, soak=5)
    result = DrillResult(repeats=turns)
    keys: dict[str, dict[str, object]] = {
        "device": {"name": NAME},
        "hub": {"probe_interval_s": context.pick(ci=2.0, soak=10.0)},
    }
    well: list[float] = []
    frozen: list[float] = []
    detected_s: list[float] = []
    async with field(context, agent_extra=STREAMS + PROBES, agent_keys=keys) as site:
        await site.sensors(rate=200.0)
        for _ in context.each(turns):
            await _online(site)
            well += await _measured(site, asyncio.sleep(context.pick(ci=5.0, soak=15.0)))
            site.server.freeze()
            frozen += await _measured(site, _detected(site, detected_s))
            site.server.thaw()
        await site.enough(0)
        await _online(site)
        result.balance = await site.settle(timeout_s=60, streams="sim/")
        result.lag = await site.loop_lag()
    p99_ms, frozen_p99_ms = typical_p99(well), typical_p99(frozen)
    result.figures |= {
        "slowest_detection_s": round(max(detected_s), 1),
        "p99_ms": round(p99_ms, 2),
        "p99_frozen_ms": round(frozen_p99_ms, 2),
    }
    result.expect(
        frozen_p99_ms <= SLOWER * p99_ms + TIMER_MS,
        f"verdicts took {frozen_p99_ms:.2f} ms (p99) while the server was frozen, {p99_ms:.2f} otherwise",
    )
    return result.within(max(detected_s), DETECTED_S, "noticing the frozen server")


def typical_p99(latencies_ms: list[float]) -> float:
    """The median of the p99 of slices of 200: a burst of something else spoils one slice only."""
    ends = range(SLICE, len(latencies_ms) + 1, SLICE)
    return median(percentile(latencies_ms[end - SLICE : end], 99) for end in ends)


async def _measured(site: Site, work: Awaitable[None]) -> list[float]:
    found = await latencies_during(work, port=site.broker.port, rate_per_s=PROBES_PER_S)
    return found.verdicts_ms


async def _detected(site: Site, detected_s: list[float]) -> None:
    """Returns some seconds after the device has noticed; what follows is measured too."""
    begin_s = time.monotonic()
    await _health(site, online=False)
    detected_s.append(time.monotonic() - begin_s)
    await asyncio.sleep(3)


async def _online(site: Site) -> None:
    await _health(site, online=True)


async def _health(site: Site, *, online: bool) -> None:
    async with asyncio.timeout(2 * DETECTED_S):
        while True:
            if ((await site.status())["hub"]["health"] == "online") == online:
                return
            await asyncio.sleep(0.1)


DRILL = Drill(
    id="F08",
    name="nats-server frozen",
    run=server_frozen,
    needs=("mosquitto", "nats-server"),
)
