"""Drills of the device's own ground: a full disk, a clock that jumps, a damaged file, a row that nobody takes."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from pathlib import Path
from typing import Final

from contract.status import Lane, RowClass
from edge_agent.clock import SystemClock
from edge_agent.errors import EdgeError
from edge_agent.outbox.database import Database, Durability
from edge_agent.outbox.spool import SPOOL_FILE
from edge_agent.outbox.store import Outbox
from edge_agent.rehearse.drilling import STEADY_S, Drill, DrillRun
from edge_agent.rehearse.hub_side import Holdings
from edge_agent.settings import OutboxSettings
from edge_agent.types import Commit, NewRow

JUMPS_S: Final = {"1970": None, "-1 day": -86400.0, "+400 days": 400 * 86400.0}
POISON_BYTES: Final = 300 * 1024
LIMIT_BYTES: Final = 4096
"""Where a file of the agent ends while its disk is full: whatever it writes beyond fails, as without a block left."""
MOVES_S: Final = 5.0
FLIPPED_ROWS: Final = 3
_FAULT_SEEN_S: Final = 10.0
_PROBE_BYTES: Final = 48


async def _disk_full(run: DrillRun) -> None:
    installation = run.installation
    await run.load(0.25)
    await run.steady()
    pid = installation.agent.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    await run.begin_fault()
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (LIMIT_BYTES, hard))
    try:
        await run.load(0.5)
        await installation.status_when(
            lambda status: bool(status.fault),
            timeout_s=_FAULT_SEEN_S,
            what="the agent says that its disk is full",
        )
    except EdgeError as error:
        run.why.append(str(error))
    finally:
        await run.end_fault()
        if installation.agent.running:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
    run.figures["limit_bytes"] = LIMIT_BYTES
    await run.recover()
    await run.load(0.25)


async def _clock_jump(run: DrillRun) -> None:
    installation = run.installation
    await run.load(0.2)
    await run.begin_fault()
    for shift_s in JUMPS_S.values():
        installation.shift_clock(-time.time() if shift_s is None else shift_s)
        await run.load(0.2)
    await run.end_fault()
    installation.shift_clock(0.0)
    await run.recover()
    await run.load(0.2)

    def flagged(held: Holdings) -> None:
        run.figures["times_flagged"] = held.untrusted

    run.at_end.append(flagged)


async def _corrupt_spool(run: DrillRun) -> None:
    installation = run.installation
    await installation.link.cut()
    await run.load(0.6)
    await _caught_up(run)
    await run.begin_fault()
    await installation.agent.stop()
    path = installation.outbox_dir / SPOOL_FILE
    flipped = await asyncio.to_thread(_flip, path)
    run.figures["flipped_rows"], run.figures["flipped_at"] = (
        len(flipped),
        flipped[-1] if flipped else 0,
    )
    if not flipped:
        run.why.append("there was nothing in the spool to damage")
    run.observed.begin(None)
    await installation.agent.start()
    await run.load(0.2)
    await run.end_fault()
    await installation.link.mend()
    await run.recover()
    await run.load(0.2)

    def declared(held: Holdings) -> None:
        if flipped and not held.gap_readings:
            run.why.append("rows were damaged, and nothing was declared as given up")

    run.at_end.append(declared)


async def _caught_up(run: DrillRun) -> None:
    """Returns once the agent has taken all that the broker has, so that it lies in the spool."""
    before = -1
    while True:
        status = await run.installation.status()
        if status.readings == before:
            return
        before = status.readings
        await asyncio.sleep(0.5)


def _flip(path: Path) -> list[int]:
    """Flips a bit in some rows' bodies and one in the middle of the file; returns where."""
    db = Database.open(path, schema="", quota_bytes=2**31, durability=Durability.KILL)
    try:
        rows = db.rows("SELECT body FROM tel WHERE kind = 7 ORDER BY seq")
        db.settle()
    finally:
        db.close()
    step = max(1, len(rows) // (FLIPPED_ROWS + 1))
    chosen = [rows[index][0] for index in range(step, len(rows), step)][:FLIPPED_ROWS]
    content = bytearray(path.read_bytes())
    places: list[int] = []
    for body in chosen:
        middle = min(len(body) // 2, 1024)
        at = content.find(body[max(0, middle - _PROBE_BYTES) : middle + _PROBE_BYTES])
        if at >= 0:
            places.append(at + min(middle, _PROBE_BYTES))
    if places:
        places.append(len(content) // 2)
    with path.open("r+b") as file:
        for place in places:
            file.seek(place)
            file.write(bytes([content[place] ^ 0x10]))
        file.flush()
        os.fsync(file.fileno())
    return places


async def _poison_row(run: DrillRun) -> None:
    installation = run.installation
    before = await installation.status()
    await installation.agent.stop()
    await installation.link.cut()
    run.planted = 1
    await _put_poison(installation.outbox_dir, installation.settings.outbox)
    await installation.agent.start()
    await run.begin_fault()
    await run.load(0.6)
    await _caught_up(run)
    await installation.link.mend()
    # When the agent tries the link again is chance; how fast the queue passes the row is not.
    await installation.status_when(
        lambda status: status.connected,
        timeout_s=STEADY_S,
        what="over the mended link the agent connects",
    )
    await run.end_fault()
    await run.recover()
    if run.recovery_s is not None and run.recovery_s > MOVES_S:
        run.why.append(f"the queue moved after {run.recovery_s:g} s; {MOVES_S:g} s are allowed")
    await run.load(0.4)
    await run.steady()
    letters = (await installation.status()).dead_letters - before.dead_letters

    def one_of_each(held: Holdings) -> None:
        run.figures["dead_letters"], run.figures["gaps"] = letters, held.gap_records
        if (letters, held.gap_records) != (1, 1):
            told = f"{letters} dead letters and {held.gap_records} gaps"
            run.why.append(f"{told} came of one poisoned row")

    run.at_end.append(one_of_each)


async def _put_poison(folder: Path, settings: OutboxSettings) -> None:
    """Puts a row at the head of an empty queue that is larger than any message may be."""
    outbox = await Outbox.open(folder, settings=settings, clock=SystemClock())
    try:
        await outbox.recover()
        row = NewRow(RowClass.ROLLUP, os.urandom(POISON_BYTES), readings=1)
        await outbox.submit(Commit(rows=(row,)))
    finally:
        await outbox.close()
    assert row.kind.lane is Lane.TEL


DISK_FULL: Final = Drill("disk_full", "whatever the agent writes to a file fails", _disk_full)
CLOCK_JUMP: Final = Drill(
    "clock_jump", "the wall clock goes to 1970, back a day, ahead 400", _clock_jump
)
CORRUPT_SPOOL: Final = Drill("corrupt_spool", "bits flip in the queue's file", _corrupt_spool)
POISON_ROW: Final = Drill("poison_row", "a row that can never be sent is next", _poison_row)
