"""The outbox on a real small disk that another file fills, and one that becomes read-only."""

import asyncio
import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.status import Lane, RowClass
from edge_agent.clock import SystemClock
from edge_agent.outbox.store import Outbox
from edge_agent.settings import OutboxSettings
from edge_agent.types import Checkpoint, Commit, NewRow, Round
from tests.unit.edge_agent.outbox.conftest import until
from tests.unit.edge_agent.outbox.ledger import account, gaps_of, rows_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
CLOCK = SystemClock()


@pytest.fixture(params=[512, 4096], ids=lambda kib: f"{kib}KiB")
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={request.param}k", "none", path], check=True
    )
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


class Feeder:
    """Gives the outbox readings and alarms, and remembers what it gave."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.rows = 0
        self.alarms = 0
        self.futures: list[asyncio.Future[int]] = []
        self._random = random.Random(7)

    async def feed(self, commits: int) -> None:
        for n in range(commits):
            await asyncio.wait_for(self.outbox.ready(), 5)
            rows = [NewRow(RowClass.RAW, self._random.randbytes(300), 3) for _ in range(8)]
            if n % 10 == 0:
                rows.append(NewRow(RowClass.ALARM, b"alarm" * 20))
                self.alarms += 1
            due = self.outbox.checkpoint_due()
            commit = Commit(
                rows=tuple(rows),
                messages=2,
                checkpoints=(Checkpoint("s", b"x" * 500),) if due else (),
                round=Round.WHOLE if due else Round.NONE,
            )
            self.futures.append(self.outbox.submit(commit))
            self.rows += 8
            await asyncio.sleep(0.001)

    async def check(self) -> dict[int, int]:
        await asyncio.wait_for(asyncio.gather(*self.futures), 10)
        _, lost = await account(self.outbox, dict.fromkeys(range(1, self.rows + 1), 3))
        events = await rows_of(self.outbox, Lane.EVT)
        assert sum(row.kind is RowClass.ALARM for row in events) == self.alarms
        return lost


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


async def opened(disk: Path, **settings: int) -> Outbox:
    outbox = await Outbox.open(disk / "outbox", settings=OutboxSettings(**settings), clock=CLOCK)
    await outbox.recover()
    return outbox


@pytest.mark.timeout(90)
async def test_on_a_full_disk_raw_is_shed_alarms_are_kept_and_gaps_are_exact(small_disk):
    outbox = await opened(small_disk)
    feeder = Feeder(outbox)
    await feeder.feed(40)
    fill(small_disk / "other")
    await feeder.feed(300)
    (small_disk / "other").unlink()
    began = time.monotonic()
    await until(lambda: not outbox.state().fault)
    await asyncio.gather(*feeder.futures)
    assert time.monotonic() - began < 10
    await asyncio.sleep(2.1)
    await feeder.feed(10)
    lost = await feeder.check()
    assert lost
    assert {gap.reason for gap in await gaps_of(outbox)} <= {"quota", "disk"}
    files = outbox._files
    assert files.limit_bytes > 60_000  # it has grown again, as far as this disk goes
    await outbox.close()


@pytest.mark.timeout(90)
async def test_a_start_on_a_full_disk_goes_on_with_what_is_there(small_disk):
    outbox = await opened(small_disk)
    feeder = Feeder(outbox)
    await feeder.feed(40)
    await asyncio.gather(*feeder.futures)
    await outbox.close()
    fill(small_disk / "other")
    outbox = await opened(small_disk)
    feeder.outbox = outbox
    await feeder.feed(100)
    (small_disk / "other").unlink()
    await feeder.check()
    await outbox.close()


@pytest.mark.timeout(90)
@pytest.mark.parametrize("small_disk", [4096], indirect=True)
async def test_a_disk_that_is_read_only_for_a_while_costs_nothing(small_disk):
    outbox = await opened(small_disk, max_bytes=2 * 1024 * 1024)
    feeder = Feeder(outbox)
    await feeder.feed(10)
    await asyncio.gather(*feeder.futures)
    # With a handle open for writing a remount is refused; what SQLite sees is the same after a close.
    await outbox._owner.do(outbox._files.close)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    await feeder.feed(10)
    await until(lambda: bool(outbox.state().fault))
    await asyncio.sleep(0.5)
    assert not feeder.futures[-1].done()
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    began = time.monotonic()
    await asyncio.gather(*feeder.futures)
    assert time.monotonic() - began < 10
    assert await feeder.check() == {}
    await outbox.close()
