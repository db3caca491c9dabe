"""Runs drills one after another, each in a folder and an event loop of its own, against its deadline."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import sysconfig
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.faults.drill import Drill, DrillContext, DrillResult, Tier
from bench.faults.report import Entry, Report

Say = Callable[[str], None]


def run_drills(
    drills: Sequence[Drill], *, tier: Tier, seed: int, say: Say, keep: Path | None = None
) -> Report:
    """All of them, whatever fails; `keep` is a folder for the logs of failed drills."""
    begin_s = time.monotonic()
    entries = tuple(_run(drill, tier=tier, seed=seed, say=say, keep=keep) for drill in drills)
    return Report(tier, seed, entries, time.monotonic() - begin_s)


def missing_programs(drill: Drill) -> list[str]:
    """What the drill needs and this machine lacks, a sentence each."""
    found = [
        f"{program} is missing: install it (docs/how-to/fault-programme.md names the packages)"
        for program in drill.needs
        if which(program) is None
    ]
    if drill.root and os.geteuid() != 0:
        found.append("needs root: it mounts, limits or cuts")
    return found


def which(program: str) -> str | None:
    """The program in this environment, on PATH, or where Debian puts what administrators use."""
    places = [
        sysconfig.get_path("scripts"),
        os.environ.get("PATH", os.defpath),
        "/usr/sbin",
        "/sbin",
    ]
    return shutil.which(program, path=os.pathsep.join(places))


def _run(drill: Drill, *, tier: Tier, seed: int, say: Say, keep: Path | None) -> Entry:
    say(f"{drill.id} {drill.name}")
    begin_s = time.monotonic()
    lacks = missing_programs(drill)
    if lacks:
        return Entry(drill, DrillResult(), tuple(lacks), 0.0)
    with tempfile.TemporaryDirectory(prefix=f"skerry-{drill.id.lower()}-") as folder:
        context = DrillContext(
            folder=Path(folder),
            rng=random.Random(f"{seed}:{drill.id}"),
            tier=tier,
            say=lambda text: say(f"{drill.id} {drill.name}: {text}"),
        )
        result, faults = asyncio.run(_within_limit(drill, context))
        if faults and keep is not None:
            _keep_logs(Path(folder), keep / drill.id)
    return Entry(drill, result, tuple(faults), time.monotonic() - begin_s)


async def _within_limit(drill: Drill, context: DrillContext) -> tuple[DrillResult, list[str]]:
    limit_s = drill.limit_s(context.tier)
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            result = await drill.run(context)
    except Exception as error:  # noqa: BLE001 - whatever a drill stumbles over fails the drill, not the programme
        if isinstance(error, TimeoutError) and limit.expired():
            return DrillResult(), [f"not done within {limit_s:g} s"]
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error)
        text = text if len(text) < 700 else f"{text[:200]} … {text[-500:]}"
        where = f"{Path(place.filename).name}:{place.lineno}"
        return DrillResult(), [f"{type(error).__name__} at {where}: {text}"]
    return result, result.verdict()


def _keep_logs(folder: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    for log in [*folder.rglob("*.log"), *folder.rglob("*.toml")]:
        target = place / log.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, target)


def progress(text: str) -> None:
    """A line that overwrites itself on a terminal; nothing elsewhere."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text[:150]}")
        sys.stderr.flush()
