"""F12: the power of the hub's server fails. Nothing is lost, because devices keep what the database lacks.

With `sync_interval: always` the server keeps what it acknowledged. With its default it keeps next to
nothing: the hub then refuses to start, and told to start all the same, nothing is lost either.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bench.faults.disk.watching import flows
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from bench.faults.powercut.disk import PowerCutDisk
from bench.faults.powercut.names import NamesBy
from bench.process import ServerError
from bench.stack import Hub

RECOVERY_S: Final = 5.0
_ALWAYS: Final = "sync_interval: always"


async def power_of_the_server(context: DrillContext) -> DrillResult:
    """The cuts are torn in turn; after them one cut of a server that syncs every two minutes."""
    cuts = context.pick(ci=5, soak=20)
    result = DrillResult(repeats=cuts)
    slowest_s = 0.0
    async with (
        PowerCutDisk(
            context.folder / "disk",
            root=context.folder / "hub-nats" / "store",
            names_by=NamesBy.JOURNAL,
            capacity_mib=4096,  # the server sizes its store by what is free
        ) as disk,
        field(context, begin=False) as site,
    ):
        await site.start()
        await site.sensors(rate=1500.0)
        for number in context.each(cuts):
            await asyncio.sleep(context.rng.uniform(0.3, 0.6))
            torn = context.rng.randrange(1 << 30) if number % 2 else None
            await _cut(site, disk, torn_seed=torn)
            await site.server.start()
            slowest_s = max(slowest_s, await flows(site))
        await _without_sync(context, result, site, disk)
        await site.enough(context.pick(ci=10_000, soak=50_000))
        result.balance = await site.settle(timeout_s=90)
        result.lag = await site.loop_lag()
    result.figures["slowest_recovery_s"] = round(slowest_s, 2)
    result.expect(
        slowest_s <= RECOVERY_S,
        f"rows flowed again {slowest_s:.1f} s after the server was back, allowed are {RECOVERY_S:g}",
    )
    return result


async def _cut(site: Site, disk: PowerCutDisk, *, torn_seed: int | None = None) -> None:
    await disk.cut(torn_seed=torn_seed)
    await site.server.kill()
    await disk.mount()


async def _without_sync(
    context: DrillContext, result: DrillResult, site: Site, disk: PowerCutDisk
) -> None:
    """The server's default: refused; allowed by the operator, it loses, and the device sends again."""
    context.say("a server that does not sync")
    await site.hub.stop()
    await site.server.stop()
    config = site.server.config_path
    text = await asyncio.to_thread(config.read_text, encoding="utf-8")
    await asyncio.to_thread(config.write_text, text.replace(_ALWAYS, ""), encoding="utf-8")
    await site.server.start()
    try:
        await site.hub.start()
    except ServerError as error:
        result.expect("sync_interval" in str(error), f"the hub's refusal does not say why: {error}")
    else:
        result.faults.append("the hub started on a server that acknowledges before it syncs")
        await site.hub.stop()
    site.hub = Hub(site.hub.home, site.server, keys={"nats": {"allow_unsafe_sync": True}})
    await site.hub.start()
    await flows(site)
    await site.hub.stop()  # what now comes in waits in the server's memory alone
    await asyncio.sleep(1.0)
    await _cut(site, disk)
    await site.server.start()
    await site.hub.start()
    await asyncio.to_thread(config.write_text, text, encoding="utf-8")


DRILL = Drill(
    id="F12",
    name="power cut of the server's disk",
    run=power_of_the_server,
    needs=("mosquitto", "fusermount3"),
    ci_limit_s=180,
)
