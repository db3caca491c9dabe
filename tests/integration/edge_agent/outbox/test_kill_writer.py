import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from contract.status import Lane
from edge_agent.clock import SystemClock
from edge_agent.outbox.store import Outbox
from edge_agent.settings import OutboxSettings
from edge_agent.types import StoredRow

ROOT = Path(__file__).resolve().parents[4]
WRITER = Path(__file__).with_name("writer.py")
CLOCK = SystemClock()


def _write_and_kill(folder: Path, *, after_s: float) -> int:
    """Lets the writer run for a while, kills it, and returns the last number that it knew durable."""
    with subprocess.Popen(
        [sys.executable, str(WRITER), str(folder)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        text=True,
    ) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        assert first, "the writer ended before it wrote anything"
        time.sleep(after_s)
        child.kill()
        return int([first, *child.stdout.read().split("\n")[:-1]][-1])


@pytest.mark.timeout(60)
def test_what_was_durable_is_there_after_five_kills(tmp_path):
    durable = 0
    for _ in range(5):
        durable = max(durable, _write_and_kill(tmp_path, after_s=random.uniform(0.1, 0.3)))

    asyncio.run(_check(tmp_path, durable))


async def _check(folder: Path, durable: int) -> None:
    outbox = await Outbox.open(folder, settings=OutboxSettings(), clock=CLOCK)
    recovery = await outbox.recover()
    last = 0
    for lane in (Lane.TEL, Lane.EVT):
        rows: list[StoredRow] = []
        while more := await outbox.read(lane, after=len(rows), max_bytes=1_000_000, max_rows=5000):
            rows += more
        last = len(rows)
        assert [row.seq for row in rows] == list(range(1, last + 1))
        assert [int(row.body) for row in rows] == list(range(1, last + 1))
        assert last >= durable > 100
    seq, body = recovery.checkpoints["s"]
    assert seq == int(body)
    assert [row.seq for row in recovery.rows] == list(range(seq + 1, last + 1))
    await outbox.close()
