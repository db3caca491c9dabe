"""F17 and F18: the disk refuses a sync, or fails in the middle of a commit. Nothing is believed that failed.

A sync that failed leaves the bytes readable and yet not on the disk, and the next sync "succeeds", as
on Linux; only a power cut in the fault shows who believed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from bench.faults.disk.watching import HEALTHY_S, goes_on, healthy
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from bench.faults.powercut.disk import PowerCutDisk
from bench.faults.powercut.rules import Call, Rule

_SYNC_PATHS: Final = ("*-wal", "*.db", "*")


async def failing_sync(context: DrillContext) -> DrillResult:
    """EIO from fsync of the log, of the files, of everything; every other time the power fails meanwhile."""
    return await _failing(context, _sync_rule, cut_every=2)


async def failing_commit(context: DrillContext) -> DrillResult:
    """ENOSPC or EIO for some of the writes of a commit: it is stored whole later, or not at all."""
    return await _failing(context, _write_rule, cut_every=5)


def _sync_rule(context: DrillContext, number: int) -> Rule:
    return Rule((Call.SYNC,), _SYNC_PATHS[number % len(_SYNC_PATHS)], error="EIO")


def _write_rule(context: DrillContext, number: int) -> Rule:
    return Rule(
        (Call.WRITE,),
        "*-wal",
        error=("ENOSPC", "EIO")[number % 2],
        after=context.rng.randrange(40),
        times=context.rng.randrange(1, 400),
    )


async def _failing(
    context: DrillContext, rule: Callable[[DrillContext, int], Rule], *, cut_every: int
) -> DrillResult:
    rounds = context.pick(ci=5, soak=20)
    result = DrillResult(repeats=rounds)
    slowest_s, unmet = 0.0, 0
    root = context.folder / "device" / "data"
    async with (
        PowerCutDisk(context.folder / "disk", root=root) as disk,
        field(context, begin=False) as site,
    ):
        await site.start()
        await site.sensors(rate=1500.0)
        for number in context.each(rounds):
            await asyncio.sleep(context.rng.uniform(0.3, 0.6))
            await disk.set_rules(rule(context, number))
            await asyncio.sleep(context.rng.uniform(0.8, 1.6))
            result.expect(await goes_on(site), f"no verdict during fault {number + 1}")
            unmet += not (await disk.state()).hits[0]
            if number % cut_every == cut_every - 1:
                await _cut(site, disk)
            await disk.set_rules()
            slowest_s = max(slowest_s, await healthy(site))
        await site.enough(context.pick(ci=10_000, soak=30_000))
        result.balance = await site.settle(timeout_s=60)
        result.lag = await site.loop_lag()
    result.figures["slowest_healthy_s"] = round(slowest_s, 2)
    result.expect(unmet <= rounds // 2, f"{unmet} of {rounds} faults met no call")
    result.expect(
        slowest_s <= HEALTHY_S,
        f"healthy {slowest_s:.1f} s after the fault's end, allowed are {HEALTHY_S:g}",
    )
    return result


async def _cut(site: Site, disk: PowerCutDisk) -> None:
    """The power fails while the disk does."""
    await site.keep_lag()
    await disk.cut()
    await site.agent.kill()
    await disk.mount()
    await site.agent.start()


DRILLS = (
    Drill(
        id="F17", name="fsync fails", run=failing_sync, needs=("mosquitto", "fusermount3")
    ),
    Drill(
        id="F18", name="a write fails inside a commit", run=failing_commit,
        needs=("mosquitto", "fusermount3"),
    ),
)  # fmt: skip
