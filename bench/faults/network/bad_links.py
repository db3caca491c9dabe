"""F25: a link that is half-open, stalls, loses packets, crawls, breaks in mid-message, and flaps.

Sensors publish all the time, and windows are put to the hub all the time. After each fault a row that is
made from then on must reach the hub's database; nothing is lost or stored twice; the device answers every
window within its deadline, by the hub or alone; and the flaps leave nothing behind in the agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeAlias

from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import STREAMS, Site, field
from bench.faults.network.offload import (
    ASK_ALWAYS,
    HUB_KEYS,
    answers,
    offloaded_streams,
    write_recording,
)
from bench.faults.network.rules import Fate, filtered
from bench.faults.network.usage import Usage, usage_of
from bench.faults.processes.server_killed import recovery_s
from edge_agent.rehearse.proxy import Proxy, Way
from edge_agent.rehearse.shaping import Shape

RATE_PER_S: Final = 200.0
WINDOW_READINGS_PER_S: Final = 1000.0
"""Ten windows a second."""
BACK_S: Final = 30.0
SLOW_BYTES_PER_S: Final = 256_000 / 8
MORE_RSS_MB: Final = 10.0
MORE_DESCRIPTORS: Final = 2
_MOTION_STREAMS: Final = 4
_WINDOWS: Final = 20_000
_AFTER_FLAPS_S: Final = 3.0

Fault: TypeAlias = Callable[[Proxy, DrillContext], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def _half_open(link: Proxy, _: DrillContext) -> AsyncIterator[None]:
    link.half_open()
    yield


@asynccontextmanager
async def _deaf(link: Proxy, _: DrillContext) -> AsyncIterator[None]:
    link.half_open(Way.DOWN)
    yield


@asynccontextmanager
async def _mute(link: Proxy, _: DrillContext) -> AsyncIterator[None]:
    link.half_open(Way.UP)
    yield


@asynccontextmanager
async def _stalled(link: Proxy, _: DrillContext) -> AsyncIterator[None]:
    link.stall()
    yield


@asynccontextmanager
async def _lossy(link: Proxy, _: DrillContext) -> AsyncIterator[None]:
    async with filtered(link.port, share=0.3):
        yield


@asynccontextmanager
async def _slow(link: Proxy, _: DrillContext) -> AsyncIterator[None]:
    link.shape(Shape(latency_s=0.15, jitter_s=0.1, bytes_per_s=SLOW_BYTES_PER_S))
    yield


@asynccontextmanager
async def _refusing(link: Proxy, _: DrillContext) -> AsyncIterator[None]:
    async with filtered(link.port, fate=Fate.RESET):
        yield


@asynccontextmanager
async def _breaking(link: Proxy, context: DrillContext) -> AsyncIterator[None]:
    """Messages cross in pieces of 64 bytes, and every now and then the connection breaks between two."""
    link.shape(Shape(latency_s=0.005, jitter_s=0.02, slice_bytes=64))

    async def breaks() -> None:
        while True:
            await asyncio.sleep(context.rng.uniform(0.1, 0.8))
            link.reset()

    task = asyncio.create_task(breaks(), name="breaks")
    try:
        yield
    finally:
        task.cancel()


FAULTS: Final[tuple[tuple[str, Fault], ...]] = (
    ("half_open", _half_open),
    ("deaf", _deaf),
    ("mute", _mute),
    ("stalled", _stalled),
    ("lossy", _lossy),
    ("slow", _slow),
    ("refusing", _refusing),
    ("breaking", _breaking),
)


async def bad_links(context: DrillContext) -> DrillResult:
    """Each fault for some seconds, then the flaps."""
    result = DrillResult()
    keys = {**ASK_ALWAYS, "hub": {"publish_timeout_s": 2}}
    async with field(
        context,
        distant=True,
        agent_extra=STREAMS + offloaded_streams(),
        agent_keys=keys,
        hub_keys=HUB_KEYS,
    ) as site:
        recording = context.folder / "motion.ndjson"
        await asyncio.to_thread(
            write_recording, recording, windows=_WINDOWS, streams=_MOTION_STREAMS
        )
        with answers(site.broker.port) as heard:
            await site.sensors(rate=RATE_PER_S)
            await site.play(recording, rate=WINDOW_READINGS_PER_S)
            await recovery_s(site)
            for name, fault in FAULTS:
                context.say(name)
                await _one_fault(context, site, result, name, fault)
            await _flaps(context, site, result)
            result.expect(site.sending, "the sensors were done before the last fault")
            await site.enough(0)
            result.balance = await site.settle(timeout_s=60)
        heard.judge(result)
        result.lag = await site.loop_lag()
    return result


async def _one_fault(
    context: DrillContext, site: Site, result: DrillResult, name: str, fault: Fault
) -> None:
    assert site.link is not None
    async with fault(site.link, context):
        await asyncio.sleep(context.pick(ci=2.0, soak=20.0))
    await site.link.mend()
    back_s = await recovery_s(site, timeout_s=2 * BACK_S)
    result.figures[f"{name}_back_s"] = round(back_s, 2)
    result.within(back_s, BACK_S, f"the way back after `{name}`")


async def _flaps(context: DrillContext, site: Site, result: DrillResult) -> None:
    link = site.link
    assert link is not None
    pid = site.agent.pid
    before = await asyncio.to_thread(usage_of, pid)
    result.repeats = context.pick(ci=20, soak=200)
    for _ in context.each(result.repeats):
        await link.cut()
        await asyncio.sleep(context.rng.uniform(0.0, 0.2))
        await link.mend()
        await asyncio.sleep(context.rng.uniform(0.1, 0.6))
    back_s = await recovery_s(site, timeout_s=2 * BACK_S)
    await asyncio.sleep(_AFTER_FLAPS_S)
    after = await asyncio.to_thread(usage_of, pid)
    result.figures["flaps_back_s"] = round(back_s, 2)
    result.within(back_s, BACK_S, "the way back after the flaps")
    _judge_usage(result, before, after)


def _judge_usage(result: DrillResult, before: Usage, after: Usage) -> None:
    more_mb = after.rss_mb - before.rss_mb
    more = after.descriptors - before.descriptors
    result.figures |= {"flaps_rss_mb": round(more_mb, 1), "flaps_descriptors": more}
    result.expect(
        more_mb <= MORE_RSS_MB,
        f"the flaps left {more_mb:.1f} MiB in memory, allowed are {MORE_RSS_MB:g}",
    )
    result.expect(
        abs(more) <= MORE_DESCRIPTORS,
        f"the flaps left {more} descriptors, allowed are {MORE_DESCRIPTORS} more or fewer",
    )


DRILL = Drill(
    id="F25",
    name="half-open, lossy, slow, breaking and flapping links",
    run=bad_links,
    needs=("mosquitto", "nats-server", "iptables"),
    root=True,
    ci_limit_s=180,
)
