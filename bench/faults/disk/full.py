"""F14: another file fills the agent's disk, while it runs and before it starts. Alarms are kept, all of them."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from bench.faults.disk.alarms import ALARMING, alarm_watch
from bench.faults.disk.files import fill, ram_disk
from bench.faults.disk.watching import HEALTHY_S, goes_on, healthy
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from bench.faults.ledger import Balance

_OUTBOX: Final = {"outbox": {"max_bytes": 8 << 20}}


async def full_disk(context: DrillContext) -> DrillResult:
    """Disks of several sizes; there is no hub meanwhile, so that everything has to be kept."""
    result = DrillResult()
    balances = []
    for kib in context.pick(ci=(2048, 8192), soak=(512, 2048, 8192, 32768)):
        context.say(f"a disk of {kib} KiB")
        folder = context.folder / f"{kib}-kib"
        await asyncio.to_thread(folder.mkdir)
        balance = await _one_size(replace(context, folder=folder), result, kib=kib)
        result.faults += [f"{kib} KiB: {fault}" for fault in balance.faults()]
        balances.append(balance)
        result.repeats += 1
    result.balance = _sum(balances)
    return result


async def _one_size(context: DrillContext, result: DrillResult, *, kib: int) -> Balance:
    root = context.folder / "device" / "data"
    async with (
        ram_disk(root, kib=kib),
        field(context, begin=False, agent_extra=ALARMING, agent_keys=_OUTBOX) as site,
        alarm_watch(site) as alarms,
    ):
        await site.agent.start()
        await site.sensors(rate=800.0)
        await asyncio.sleep(1.5)
        await _full_while_running(context, result, site, root, kib=kib)
        await _full_at_the_start(context, result, site, root, kib=kib)
        await site.enough(0)
        await site.start()
        balance = await site.settle(timeout_s=60)
        result.lag = await site.loop_lag()
        unstored = await alarms.unstored(site)
        result.figures[f"alarms_{kib}_kib"] = len(alarms.ids)
        result.figures[f"declared_{kib}_kib"] = balance.declared
        result.expect(alarms.ids, f"no alarm was raised on {kib} KiB: the drill shows nothing")
        result.expect(
            not unstored,
            f"{len(unstored)} of {len(alarms.ids)} alarms did not reach the hub ({kib} KiB)",
        )
        return balance


async def _full_while_running(
    context: DrillContext, result: DrillResult, site: Site, root: Path, *, kib: int
) -> None:
    await asyncio.to_thread(fill, root / "other")
    await asyncio.sleep(context.pick(ci=3.0, soak=8.0))
    result.expect(site.agent.is_running(), f"the agent died on a full disk of {kib} KiB")
    result.expect(await goes_on(site), f"no verdict on a full disk of {kib} KiB")
    await _free(result, site, root, figure=f"healthy_s_{kib}_kib_running")


async def _full_at_the_start(
    context: DrillContext, result: DrillResult, site: Site, root: Path, *, kib: int
) -> None:
    await site.keep_lag()
    await site.agent.stop()
    await asyncio.to_thread(fill, root / "other")
    await site.agent.start_without_broker()  # alive; it is not ready with a disk like that
    await asyncio.sleep(context.pick(ci=2.0, soak=5.0))
    result.expect(await goes_on(site), f"no verdict after a start on a full disk of {kib} KiB")
    await _free(result, site, root, figure=f"healthy_s_{kib}_kib_start")


async def _free(result: DrillResult, site: Site, root: Path, *, figure: str) -> None:
    await asyncio.to_thread((root / "other").unlink)
    took_s = await healthy(site)
    result.figures[figure] = round(took_s, 2)
    result.expect(
        took_s <= HEALTHY_S,
        f"{figure}: {took_s:.1f} s after there was space, allowed {HEALTHY_S:g}",
    )


def _sum(balances: list[Balance]) -> Balance:
    """The figures of several installations together; each was judged by itself before."""
    counts = [name.name for name in fields(Balance) if name.name != "examples"]
    return Balance(**{name: sum(getattr(one, name) for one in balances) for name in counts})


DRILL = Drill(
    id="F14",
    name="the agent's disk is full",
    run=full_disk,
    needs=("mosquitto", "mount"),
    root=True,
    ci_limit_s=180,
)
