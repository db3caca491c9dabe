"""Works on an outbox as the agent does, and tells each promise as soon as it is given.

`python -m bench.faults.processes.outbox_worker FOLDER commit|mark|salvage`. Every line on stdout is a promise:
`committed 3`, `sent 3`, `applied 3`, `open`. Whoever kills this process at any system call then compares
what it finds on the disk with the promises that it has read.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from pathlib import Path
from typing import Final

from contract.messages import Watermark
from contract.status import Lane, RowClass
from edge_agent.clock import SystemClock
from edge_agent.observe.logs import configure_logging
from edge_agent.outbox.store import Outbox
from edge_agent.settings import OutboxSettings
from edge_agent.types import Checkpoint, Commit, NewRow, Round

COMMITS: Final = 3
READINGS: Final = 4


def body_of(number: int, lane: Lane) -> bytes:
    """What the row of commit `number` says in this lane; never the same for two."""
    seed = f"{number}:{lane}".encode()
    return b"".join(hashlib.sha256(seed + bytes([part])).digest() for part in range(8))


def commit_of(number: int) -> Commit:
    """A commit of one row in each of two lanes, so that half of it would be seen."""
    return Commit(
        rows=(
            NewRow(RowClass.RAW, body_of(number, Lane.TEL), READINGS),
            NewRow(RowClass.VERDICT, body_of(number, Lane.EVT)),
        ),
        checkpoints=(Checkpoint("s", str(number).encode()),),
        round=Round.WHOLE,
    )


async def opened(folder: Path) -> Outbox:
    """The outbox in this folder, ready for commits."""
    outbox = await Outbox.open(folder, settings=OutboxSettings(), clock=SystemClock())
    await outbox.recover()
    return outbox


async def fill(folder: Path, commits: int) -> None:
    """Makes an outbox with so many commits and closes it."""
    outbox = await opened(folder)
    for number in range(1, commits + 1):
        await outbox.submit(commit_of(number))
    await outbox.close()


async def work(folder: Path, task: str) -> None:
    """Does one of the three things; promises on stdout."""
    outbox = await opened(folder)
    _promise("open", 0)
    if task == "commit":
        before = outbox.state().lanes[Lane.TEL].next_seq - 1
        for number in range(1, COMMITS + 1):
            await outbox.submit(commit_of(before + number))
            _promise("committed", number)
    if task == "mark":
        epoch = outbox.state().epoch
        for seq in range(1, COMMITS + 1):
            await outbox.read(Lane.TEL, after=seq - 1, max_bytes=1, max_rows=1)
            await outbox.mark_sent(Lane.TEL, seq)
            _promise("sent", seq)
            await outbox.apply(Lane.TEL, Watermark(epoch, applied=seq))
            _promise("applied", seq)
    await outbox.close()


def _promise(kind: str, number: int) -> None:
    sys.stdout.write(f"{kind} {number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    configure_logging("error", "console")  # to stderr: stdout holds promises only
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
