"""F10: files that are broken at start. By the third start the device answers again, and says what it left out."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.agent import LOAD
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import STREAMS, Site, field
from bench.process import ServerError
from bench.toy_package import FAMILY, build_toy_package
from bench.waves import CHANNELS
from edge_agent.errors import EdgeError

STARTS: Final = 3
PROVED_S: Final = 30.0
CLEAR: Final = frozenset({"safe_mode", "outbox_recovered", "model_rejected", "model_failed"})
"""Events that tell an operator what happened."""
Damage = Callable[[Site, Path], None]


def bad_configuration(site: Site, _: Path) -> None:
    """The file breaks off in the middle of a table, as after a full disk."""
    text = site.agent.config.read_text(encoding="utf-8")
    site.agent.config.write_text(text[: text.index("[hub]") + 3], encoding="utf-8")


def truncated_model(_: Site, package: Path) -> None:
    """Every file of the package but its manifest is cut in half."""
    for path in package.rglob("*"):
        if path.is_file() and path.name != "manifest.json":
            _halve(path)


def truncated_outbox(site: Site, _: Path) -> None:
    """The spool is cut in half, in the middle of a page, and its log is gone."""
    folder = site.agent.data_dir / "outbox"
    for log in folder.glob("spool.db-*"):
        log.unlink()
    _halve(folder / "spool.db")


async def crash_loop(context: DrillContext) -> DrillResult:
    """The drill is the supervisor: it starts the agent again, at most three times."""
    kinds: tuple[Damage, ...] = (bad_configuration, truncated_model, truncated_outbox)
    result = DrillResult(repeats=len(kinds) * context.pick(ci=1, soak=3))
    package = context.folder / "package"
    whole = context.folder / "whole"
    await asyncio.to_thread(build_toy_package, whole)
    async with field(context, begin=False, agent_extra=STREAMS + _modelled(package)) as site:
        await site.sensors(rate=100.0)
        for number in context.each(result.repeats):
            await _renew(site, package, whole)
            begin = len(_events(site))
            damage = kinds[number % len(kinds)]
            await site.agent.start()
            if damage is bad_configuration:
                await _proves_itself(site, begin)
            await _healthy(site, timeout_s=PROVED_S)
            await site.keep_lag()
            await site.agent.terminate()
            await asyncio.to_thread(damage, site, package)
            before = len(_events(site))
            starts, seconds = await _supervised(site)
            events = _events(site)[before:]
            what = damage.__name__
            result.figures[f"{what}_starts"] = starts
            result.figures[f"{what}_s"] = round(seconds, 1)
            result.expect(starts <= STARTS, f"{what}: not healthy after {STARTS} starts: {events}")
            result.expect(
                events.count("safe_mode") <= 1,
                f"{what}: safe mode was told more than once: {events}",
            )
            result.expect(CLEAR & set(events), f"{what}: no event says what happened: {events}")
            await site.keep_lag()
            await site.agent.kill()
        await site.enough(0)
        result.lag = await site.lag.figures()
    return result


async def _renew(site: Site, package: Path, whole: Path) -> None:
    """Sound files for everything, and no history."""
    await asyncio.to_thread(shutil.rmtree, package, ignore_errors=True)
    await asyncio.to_thread(shutil.copytree, whole, package)
    await asyncio.to_thread(shutil.rmtree, site.agent.data_dir, ignore_errors=True)
    site.agent.configure(STREAMS + _modelled(package))


async def _proves_itself(site: Site, begin: int) -> None:
    """Returns once the agent has kept its configuration as one that runs well."""
    async with asyncio.timeout(PROVED_S):
        while True:
            if "configuration_kept" in _events(site)[begin:]:
                break
            await asyncio.sleep(0.2)


async def _supervised(site: Site) -> tuple[int, float]:
    """How many starts it took until the agent was healthy, and how long; one more than allowed: never."""
    begin_s = time.monotonic()
    for number in range(1, STARTS + 1):
        try:
            await site.agent.start()
            await _healthy(site, timeout_s=10)
        except (ServerError, TimeoutError):
            await site.agent.kill()
            continue
        return number, time.monotonic() - begin_s
    return STARTS + 1, time.monotonic() - begin_s


async def _healthy(site: Site, *, timeout_s: float) -> None:
    """Returns once this agent has given verdicts."""
    async with asyncio.timeout(timeout_s):
        while True:
            try:
                if (await site.status())["verdicts"]:
                    return
            except EdgeError:
                pass
            await asyncio.sleep(0.1)


def _events(site: Site) -> list[str]:
    """The events in the agent's log; a start that fails also writes for people."""
    if not site.agent.log_path.exists():
        return []
    lines = site.agent.log_path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["event"] for line in lines if line.startswith("{")]


def _halve(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _modelled(package: Path) -> str:
    channels = ", ".join(f"{name} = {{}}" for name in CHANNELS)
    return f"""
[[model]]
package = "{package}"
[[stream]]
name = "load/{{1}}"
topic = "{LOAD}/+"
channels = {{ {channels} }}
model = "{FAMILY}"
"""


DRILL = Drill(
    id="F10",
    name="crash loop",
    run=crash_loop,
    needs=("mosquitto", "nats-server"),
)
