"""F22: the agent's disk turns read-only, belongs to somebody else, or is not there. Inference goes on."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from bench.faults.disk.watching import (
    HEALTHY_S,
    LINES_PER_MINUTE,
    goes_on,
    healthy,
    lines_of,
    told_fault,
)
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from bench.faults.powercut.disk import PowerCutDisk
from bench.faults.powercut.rules import CHANGES, Call, Rule

FIRST_LINES: Final = 10
"""Of a fault and its end may be said at once; the rate holds for what is said beyond."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One way to be without a disk."""

    name: str
    rules: tuple[Rule, ...]


TROUBLES: Final = (
    Trouble("read_only", (Rule(CHANGES, error="EROFS"),)),
    Trouble("not_ours", (Rule((*CHANGES, Call.OPEN, Call.READ), error="EACCES"),)),
    Trouble("dying", (Rule(tuple(Call), error="EIO"),)),
)


async def disk_gone(context: DrillContext) -> DrillResult:
    """Each trouble comes while the agent runs, and again before it starts."""
    result = DrillResult(repeats=len(TROUBLES))
    root = context.folder / "device" / "data"
    async with (
        PowerCutDisk(context.folder / "disk", root=root) as disk,
        field(context, begin=False) as site,
    ):
        await site.start()
        await site.sensors(rate=800.0)
        await asyncio.sleep(1.0)
        for trouble in TROUBLES:
            context.say(trouble.name)
            await disk.set_rules(*trouble.rules)
            await _hold(context, result, site, when=f"{trouble.name}_running")
            await disk.set_rules()
            await _recovered(result, site, when=f"{trouble.name}_running")
            await site.keep_lag()
            await site.agent.stop()
            await disk.set_rules(*trouble.rules)
            await site.agent.start_without_broker()
            await _hold(context, result, site, when=f"{trouble.name}_start")
            await disk.set_rules()
            await _recovered(result, site, when=f"{trouble.name}_start")
        await site.enough(0)
        result.balance = await site.settle(timeout_s=60)
        result.lag = await site.loop_lag()
    return result


async def _hold(context: DrillContext, result: DrillResult, site: Site, *, when: str) -> None:
    """The fault lasts; verdicts go on, and the log stays quiet."""
    begin_s = time.monotonic()
    lines = await asyncio.to_thread(lines_of, site.agent.log_path)
    await asyncio.sleep(context.pick(ci=3.0, soak=30.0))
    result.expect(site.agent.is_running(), f"{when}: the agent died")
    result.expect(await goes_on(site), f"{when}: no verdict")
    result.expect(await told_fault(site), f"{when}: the agent does not tell of the fault")
    said = await asyncio.to_thread(lines_of, site.agent.log_path) - lines
    minutes = (time.monotonic() - begin_s) / 60
    result.figures[f"lines_{when}"] = said
    result.expect(
        said <= FIRST_LINES + LINES_PER_MINUTE * minutes,
        f"{when}: {said} lines in {minutes * 60:.0f} s, allowed are {LINES_PER_MINUTE:g} a minute "
        f"after the first {FIRST_LINES}",
    )


async def _recovered(result: DrillResult, site: Site, *, when: str) -> None:
    took_s = await healthy(site)
    result.figures[f"healthy_s_{when}"] = round(took_s, 2)
    result.expect(
        took_s <= HEALTHY_S, f"{when}: healthy after {took_s:.1f} s, allowed are {HEALTHY_S:g}"
    )


DRILL = Drill(
    id="F22",
    name="the agent's disk is read-only or gone",
    run=disk_gone,
    needs=("mosquitto", "fusermount3"),
    ci_limit_s=240,
    soak_limit_s=600,
)
