"""F05: the process dies at every file-system call of a commit, of a mark, and of a salvage.

Old or new, never neither: what was promised is there, what is there is whole, and the outbox opens again.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.faults.crash_points import CrashPoint, crash_points, run_to
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import STREAMS
from bench.faults.lag import LagWatch
from bench.faults.processes.outbox_worker import (
    COMMITS,
    body_of,
    fill,
    opened,
)
from bench.servers import mosquitto
from bench.stack import Agent
from contract.status import Lane

PREFILLED: Final = 3
RESTART_S: Final = 3.0
LAG_S: Final = 1.2
"""An agent measures its event loop every half second."""
FILES: Final = tuple(
    name + suffix
    for name in ("spool.db", "spool.db.new", "state.db")
    for suffix in ("", "-wal", "-shm", "-journal")
)


@dataclass(frozen=True, slots=True)
class Critical:
    """One critical sequence: what the worker does, and whether the spool is damaged before."""

    task: str
    damaged: bool = False


SEQUENCES: Final = (Critical("commit"), Critical("mark"), Critical("salvage", damaged=True))


async def outbox_crash(context: DrillContext) -> DrillResult:
    """Every point in a soak; in the short tier every rename, and a sample of the others."""
    result = DrillResult()
    slowest_s = 0.0
    async with mosquitto(context.folder) as broker:
        agent = Agent(
            context.folder / "device",
            broker=f"mqtt://{broker.host}:{broker.port}",
            hub=None,
            extra=STREAMS,
        )
        lag = LagWatch(context.folder, agent)
        await lag.start()
        try:
            for sequence in SEQUENCES:
                places = await _crash(sequence, context, result)
                for place in context.rng.sample(
                    places, min(len(places), context.pick(ci=1, soak=10))
                ):
                    slowest_s = max(slowest_s, await _restart(agent, place, lag))
            result.lag = await lag.figures()
        finally:
            await lag.close()
            await agent.kill()
    result.figures["slowest_restart_s"] = round(slowest_s, 2)
    return result.within(slowest_s, RESTART_S, "a restart of the agent")


async def _crash(sequence: Critical, context: DrillContext, result: DrillResult) -> list[Path]:
    """Kills the worker at the points of one sequence; returns the folders that it left."""
    begin = context.folder / sequence.task / "begin"
    await _prepare(sequence, begin)
    dry = _copy(begin, "dry")
    found = await crash_points(_worker(dry, sequence), paths=_paths(dry), scratch=begin.parent)
    points = _chosen(found, context)
    result.figures[f"{sequence.task}_points"] = f"{len(points)} of {len(found)}"
    places: list[Path] = []
    two_at_once = asyncio.Semaphore(2)
    left = iter(context.each(len(points)))

    async def one(number: int, point: CrashPoint) -> None:
        async with two_at_once:
            next(left)
            place = _copy(begin, f"point-{number}")
            killed, promises = await run_to(point, _worker(place, sequence), paths=_paths(place))
            faults = await _judge(place, sequence, promises)
        result.repeats += 1
        result.expect(killed, f"{sequence.task} at {point}: was not killed")
        result.faults += [f"{sequence.task} at {point}: {fault}" for fault in faults]
        places.append(place)

    await asyncio.gather(*(one(number, point) for number, point in enumerate(points)))
    return sorted(places)


def _chosen(points: Sequence[CrashPoint], context: DrillContext) -> list[CrashPoint]:
    few = [point for point in points if point.call.startswith(("rename", "unlink", "ftruncate"))]
    rest = [point for point in points if point not in few]
    taken = context.pick(ci=context.rng.sample(rest, min(8, len(rest))), soak=rest)
    return sorted(few + taken)


async def _prepare(sequence: Critical, folder: Path) -> None:
    await asyncio.to_thread(folder.mkdir, parents=True)
    await fill(folder, PREFILLED)
    if sequence.damaged:
        await asyncio.to_thread(_damage, folder)


def _damage(folder: Path) -> None:
    """Makes the counters contradict their checksum: the file is set aside at the next start."""
    with closing(sqlite3.connect(folder / "spool.db")) as connection:
        connection.execute("UPDATE head SET sum = sum + 1")
        connection.commit()


def _worker(folder: Path, sequence: Critical) -> list[str]:
    module = "bench.faults.processes.outbox_worker"
    return [sys.executable, "-m", module, str(folder), sequence.task]


def _paths(folder: Path) -> list[Path]:
    return [folder, *(folder / name for name in FILES)]


def _copy(begin: Path, name: str) -> Path:
    place = begin.parent / name
    shutil.copytree(begin, place)
    return place


async def _judge(folder: Path, sequence: Critical, promises: list[str]) -> list[str]:
    """What is wrong with the outbox that a kill left."""
    kept = dict.fromkeys(("committed", "sent", "applied"), 0)
    for promise in promises:
        kind, number = promise.split()
        kept[kind] = int(number)
    outbox = await opened(folder)
    try:
        state = outbox.state()
        rows = {
            lane: await outbox.read(lane, after=0, max_bytes=1 << 20, max_rows=1000)
            for lane in (Lane.TEL, Lane.EVT)
        }
    finally:
        await outbox.close()
    faults: list[str] = []
    tel, evt = state.lanes[Lane.TEL], state.lanes[Lane.EVT]
    total = tel.next_seq - 1
    least = PREFILLED + kept["committed"]
    most = PREFILLED + (COMMITS if sequence.task == "commit" else 0)
    if not least <= total <= most:
        faults.append(f"{total} commits are there, promised were {least}")
    if tel.next_seq != evt.next_seq:
        faults.append(f"half a commit: next are {tel.next_seq} and {evt.next_seq}")
    for lane, found in rows.items():
        faults += _contents(lane, {row.seq: row.body for row in found}, total, tel.applied)
    if not kept["sent"] <= tel.sent <= kept["sent"] + 1:
        faults.append(f"sent is {tel.sent}, promised was {kept['sent']}")
    if not kept["applied"] <= tel.applied <= kept["applied"] + 1:
        faults.append(f"applied is {tel.applied}, promised was {kept['applied']}")
    if state.fault or state.dead_letters:
        faults.append(f"fault {state.fault!r}, {state.dead_letters} dead letters")
    if sequence.damaged and not await asyncio.to_thread(_was_set_aside, folder):
        faults.append("the damaged file was not set aside")
    return faults


def _was_set_aside(folder: Path) -> bool:
    return any(folder.glob("spool.db.corrupt*"))


def _contents(lane: Lane, found: dict[int, bytes], total: int, applied: int) -> list[str]:
    """Rows that differ from what was committed; a row that the hub holds may be gone."""
    may_go = applied if lane is Lane.TEL else 0
    wrong = [
        number
        for number in range(1, total + 1)
        if found.get(number, b"" if number <= may_go else None)
        not in ((body_of(number, lane), b"") if number <= may_go else (body_of(number, lane),))
    ]
    return [f"rows {wrong} of {lane} are not what was committed"] if wrong else []


async def _restart(agent: Agent, place: Path, lag: LagWatch) -> float:
    """Seconds until a real agent is ready on what a kill left."""
    data = agent.data_dir / "outbox"
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(place, data)
    begin_s = time.monotonic()
    await agent.start()
    seconds = time.monotonic() - begin_s
    await asyncio.sleep(LAG_S)
    await lag.take()
    await agent.kill()
    return seconds


DRILL = Drill(
    id="F05",
    name="killed at each file-system call",
    run=outbox_crash,
    needs=("mosquitto", "strace"),
    soak_limit_s=1800,
)
