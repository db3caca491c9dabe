"""Writes to an outbox for ever and prints what is durable: the victim of the kill test."""

import asyncio
import sys
from pathlib import Path

from contract.status import RowClass
from edge_agent.clock import SystemClock
from edge_agent.outbox.store import Outbox
from edge_agent.settings import OutboxSettings
from edge_agent.types import Checkpoint, Commit, NewRow, Round


async def write(folder: Path) -> None:
    outbox = await Outbox.open(folder, settings=OutboxSettings(), clock=SystemClock())
    await outbox.recover()
    number = outbox.state().lanes[RowClass.RAW.lane].next_seq - 1
    waiting: list[tuple[asyncio.Future[int], int]] = []
    while True:
        await outbox.ready()
        number += 1
        rows = (NewRow(RowClass.RAW, b"%d" % number, 1), NewRow(RowClass.ALARM, b"%d" % number))
        due = outbox.checkpoint_due() or number % 50 == 0
        commit = Commit(
            rows=rows,
            checkpoints=(Checkpoint("s", b"%d" % number),) if due else (),
            round=Round.WHOLE if due else Round.NONE,
        )
        waiting.append((outbox.submit(commit), number))
        if len(waiting) >= 20:
            for future, done in waiting:
                assert await future == done
            print(waiting[-1][1], flush=True)
            waiting.clear()


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1])))
