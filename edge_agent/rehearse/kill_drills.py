"""Drills that kill the agent: while it takes readings in, and while it drains a backlog."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from edge_agent.rehearse.drilling import PER_S, Drill, DrillRun
from edge_agent.rehearse.shaping import Shape

KILLS: Final = 5
_INGEST_PER_S: Final = 250.0
_CHUNK: Final = 50
_MOST: Final = 4
_DRAIN: Final = Shape(bytes_per_s=30_000, latency_s=0.02)
_CONNECTED_S: Final = 20.0


async def _ingest(run: DrillRun) -> None:
    over = asyncio.Event()
    await run.begin_fault()
    started_s = time.monotonic()
    load = asyncio.create_task(_load_until(run, over), name="sensors")
    try:
        for kill in range(KILLS):
            if kill:
                run.observed.begin(None)
            await asyncio.sleep(run.rng.uniform(0.3, 0.6))
            run.observed.end(await run.installation.status_or_none())
            await run.installation.agent.kill()
            await run.installation.agent.start()
            started_s = time.monotonic()
    finally:
        over.set()
        await asyncio.wait({load})
    load.result()
    run.figures["kills"] = KILLS
    run.observed.begin(await run.installation.status_or_none())
    await run.end_fault(deciding=False, at_s=started_s)
    await run.recover()


async def _load_until(run: DrillRun, over: asyncio.Event) -> None:
    """All readings of the drill, and more while kills go on, within a bound."""
    sent = 0
    while sent < run.readings or (not over.is_set() and sent < _MOST * run.readings):
        await run.sensors.send(_CHUNK, per_s=_INGEST_PER_S)
        sent += _CHUNK


async def _drain(run: DrillRun) -> None:
    installation = run.installation
    await installation.link.cut()
    await run.load(1.0, per_s=2 * PER_S)
    await installation.link.mend()
    installation.link.shape(_DRAIN)  # slow enough to be hit in the middle
    kills, started_s = 0, time.monotonic()
    for kill in range(KILLS):
        status = await installation.status_when(
            lambda status: bool(status.raw["hub"]["connection"]) or status.waiting == 0,
            timeout_s=_CONNECTED_S,
            what="the agent finds the way to the hub",
        )
        if status.waiting == 0:
            break
        await asyncio.sleep(run.rng.uniform(0.05, 0.4))
        run.observed.begin(None)
        last = await installation.status_or_none()
        run.observed.end(last)
        if last is not None and last.waiting == 0:
            break
        await installation.agent.kill()
        kills = kill + 1
        await installation.agent.start()
        started_s = time.monotonic()
    run.figures["kills"] = kills
    if not kills:
        run.why.append("the backlog was gone before a kill could hit it; use more --readings")
    run.observed.begin(await installation.status_or_none())
    await run.end_fault(deciding=False, at_s=started_s)
    await installation.link.mend()
    await run.recover()


KILL_INGEST: Final = Drill("kill_ingest", "the agent is killed while readings come in", _ingest)
KILL_DRAIN: Final = Drill("kill_drain", "the agent is killed while it drains a backlog", _drain)
