"""F15: another file fills the server's disk. Devices keep everything and say so; after its restart all flows."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from bench.faults.disk.files import fill, ram_disk
from bench.faults.disk.watching import flows, goes_on, said_in
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from edge_agent.observe.events import Event

SIZE_KIB: Final = 24 * 1024
SAID_S: Final = 60.0
RESUMES_S: Final = 10.0
_HUB_KEYS: Final = {"nats": {"max_stream_bytes": 256 << 20}}


async def full_server(context: DrillContext) -> DrillResult:
    """The flow must come back within ten seconds of the server's restart with space."""
    rounds = context.pick(ci=1, soak=3)
    result = DrillResult(repeats=rounds)
    slowest_said_s, slowest_flow_s = 0.0, 0.0
    store = context.folder / "hub-nats" / "store"
    async with (
        ram_disk(store, kib=SIZE_KIB),
        field(context, begin=False, hub_keys=_HUB_KEYS) as site,
    ):
        await _promise_space(site)
        await site.start()
        await site.sensors(rate=1500.0)
        for number in context.each(rounds):
            await asyncio.sleep(1.5)
            seen = len(await asyncio.to_thread(said_in, site.agent.log_path))
            await asyncio.to_thread(fill, store / "other")
            begin_s = time.monotonic()
            said = await _said(site, seen=seen)
            result.expect(said, f"the device did not say within {SAID_S:g} s that nothing is taken")
            slowest_said_s = max(slowest_said_s, time.monotonic() - begin_s)
            result.expect(await goes_on(site), f"no verdict while it was full ({number + 1})")
            await asyncio.to_thread((store / "other").unlink)
            await site.server.restart()
            slowest_flow_s = max(slowest_flow_s, await flows(site))
        await site.enough(0)
        result.balance = await site.settle(timeout_s=90)
        result.lag = await site.loop_lag()
    result.figures |= {
        "slowest_said_s": round(slowest_said_s, 1),
        "slowest_flow_s": round(slowest_flow_s, 1),
    }
    result.expect(
        slowest_flow_s <= RESUMES_S,
        f"rows flowed {slowest_flow_s:.1f} s after the restart, allowed are {RESUMES_S:g}",
    )
    return result


async def _promise_space(site: Site) -> None:
    """The server's own bound is above its disk, as where it shares the disk with others."""
    config = site.server.config_path
    text = await asyncio.to_thread(config.read_text, encoding="utf-8")
    text = text.replace("jetstream {\n", "jetstream {\n  max_file_store: 4GB\n")
    await asyncio.to_thread(config.write_text, text, encoding="utf-8")


async def _said(site: Site, *, seen: int) -> bool:
    """Whether the device says in time that the server takes nothing."""
    deadline_s = time.monotonic() + SAID_S
    while time.monotonic() < deadline_s:
        lines = (await asyncio.to_thread(said_in, site.agent.log_path))[seen:]
        if any(line["event"] == Event.OUTBOX_STALLED for line in lines):
            return True
        await asyncio.sleep(0.2)
    return False


DRILL = Drill(
    id="F15",
    name="the server's disk is full",
    run=full_server,
    needs=("mosquitto", "mount"),
    root=True,
    ci_limit_s=180,
)
