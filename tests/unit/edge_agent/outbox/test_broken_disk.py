"""A disk that cannot be written while the agent runs, and one that is only slow."""

import asyncio
import errno
import time
from pathlib import Path

import pytest

from contract.status import Lane, RowClass
from edge_agent.errors import StoreError
from edge_agent.observe.events import Event
from edge_agent.outbox import trouble
from edge_agent.outbox.database import Database
from edge_agent.outbox.queue import RELEASED
from edge_agent.types import Commit, NewRow, Round
from tests.unit.edge_agent.outbox.conftest import raw, until
from tests.unit.edge_agent.outbox.ledger import account, gaps_of, rows_of

_MEMORY = 1024 * 1024


class Disk:
    """Lets every transaction fail, or take its time, as long as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken = False
        self.slow_s = 0.0
        run = Database.run

        def running(db: Database, statement: str, values=()):
            if statement == "BEGIN IMMEDIATE" and self.broken:
                raise StoreError("SQLITE_IOERR (injected)")
            if statement == "COMMIT" and self.slow_s:
                time.sleep(self.slow_s)
            return run(db, statement, values)

        monkeypatch.setattr(Database, "run", running)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


async def feed(
    outbox, *, commits: int, size: int = 2000, readings: int = 5
) -> list[asyncio.Future[int]]:
    """Commits of one raw row and two messages each; every tenth has an alarm."""
    futures = []
    for n in range(commits):
        await asyncio.wait_for(outbox.ready(), 5)
        rows = [raw(readings, size)]
        if n % 10 == 0:
            rows.append(NewRow(RowClass.ALARM, b"alarm"))
        due = outbox.checkpoint_due()
        futures.append(
            outbox.submit(
                Commit(rows=tuple(rows), messages=2, round=Round.WHOLE if due else Round.NONE)
            )
        )
        await asyncio.sleep(0)
    return futures


async def alarms_in(outbox) -> int:
    return sum(row.kind is RowClass.ALARM for row in await rows_of(outbox, Lane.EVT))


async def test_within_the_bounds_nothing_is_given_up_and_nothing_is_acknowledged(open_outbox, disk):
    outbox = await open_outbox(max_memory_bytes=_MEMORY)
    disk.broken = True
    futures = await feed(outbox, commits=300)
    await until(lambda: bool(outbox.state().fault))
    await asyncio.sleep(0.3)
    assert not any(future.done() for future in futures)
    disk.broken = False
    began = time.monotonic()
    assert await asyncio.gather(*futures) == list(range(1, 301))
    assert time.monotonic() - began < 5
    kept, lost = await account(outbox, dict.fromkeys(range(1, 301), 5))
    assert (len(kept), lost) == (300, {})
    assert await alarms_in(outbox) == 30
    assert outbox.state().fault == ""


async def test_beyond_the_bytes_the_oldest_readings_go_counted_and_alarms_stay(open_outbox, disk):
    outbox = await open_outbox(max_memory_bytes=_MEMORY, max_unacknowledged=60_000)
    disk.broken = True
    first = await feed(outbox, commits=1)
    await until(lambda: bool(outbox.state().fault))
    futures = first + await feed(outbox, commits=1999)
    assert outbox._owner._queue.bytes <= _MEMORY
    assert not any(future.done() for future in futures)
    disk.broken = False
    await asyncio.gather(*futures)
    given = dict.fromkeys(range(1, 2001), 5)
    kept, lost = await account(outbox, given)
    assert min(kept) > max(lost)
    assert len(lost) > 1000
    assert {gap.reason for gap in await gaps_of(outbox)} == {"disk"}
    assert len(await gaps_of(outbox)) < 20
    assert await alarms_in(outbox) == 201
    assert outbox.state().shed["raw_readings"] == 5 * len(lost)


async def test_beyond_the_messages_the_oldest_are_released_in_order(open_outbox, disk):
    outbox = await open_outbox(max_unacknowledged=100)
    disk.broken = True
    futures = await feed(outbox, commits=1)
    await until(lambda: bool(outbox.state().fault))
    futures += await feed(outbox, commits=499, size=100)
    done = [future.done() for future in futures]
    assert done == sorted(done, reverse=True)
    assert 450 <= sum(done) < 500
    assert {future.result() for future in futures if future.done()} == {RELEASED}
    released = sum(done)
    disk.broken = False
    await asyncio.gather(*futures)
    _, lost = await account(outbox, dict.fromkeys(range(1, 501), 5))
    assert len(lost) == released
    assert await alarms_in(outbox) == 51
    assert outbox.checkpoint_due()  # what was given up cannot be replayed


async def test_a_group_that_was_stored_although_it_failed_is_not_declared(
    open_outbox, disk, monkeypatch
):
    outbox = await open_outbox(max_unacknowledged=40)
    run = Database.run

    def failing_late(db, statement, values=()):
        result = run(db, statement, values)
        if statement == "COMMIT" and not disk.broken:
            disk.broken = True
            raise StoreError("SQLITE_IOERR_FSYNC (injected)")
        return result

    monkeypatch.setattr(Database, "run", failing_late)
    futures = await feed(outbox, commits=1)
    await until(lambda: bool(outbox.state().fault))
    futures += await feed(outbox, commits=99)
    assert futures[0].done()  # its messages were released
    monkeypatch.setattr(Database, "run", run)
    disk.broken = False
    await asyncio.gather(*futures)
    kept, _ = await account(outbox, dict.fromkeys(range(1, 101), 5))
    assert 1 in kept


async def test_a_slow_disk_is_waited_for_and_costs_nothing(open_outbox, disk):
    outbox = await open_outbox(max_queue_commits=32)
    disk.slow_s = 0.1
    futures = await feed(outbox, commits=300)
    assert len(outbox._owner._queue) <= 33
    assert outbox.state().fault == ""
    assert await asyncio.gather(*futures) == list(range(1, 301))
    assert outbox.state().shed == {}
    assert outbox.state().commits == 300


async def test_a_disk_that_does_not_answer_is_not_waited_for(open_outbox, disk, monkeypatch):
    monkeypatch.setattr("edge_agent.outbox.owner.STUCK_S", 0.2)
    outbox = await open_outbox(max_queue_commits=2)
    disk.slow_s = 1.0
    futures = [outbox.submit(Commit(rows=(raw(),))) for _ in range(4)]
    began = time.monotonic()
    await outbox.ready()
    assert time.monotonic() - began < 0.9
    assert "not answered" in outbox.state().fault
    disk.slow_s = 0.0
    assert await asyncio.gather(*futures) == [1, 2, 3, 4]
    assert outbox.state().fault == ""


async def test_a_fault_is_told_a_few_times_a_minute_at_most(open_outbox, disk, caplog, capsys):
    outbox = await open_outbox(max_memory_bytes=_MEMORY, max_unacknowledged=50)
    for _ in range(6):
        disk.broken = True
        futures = await feed(outbox, commits=200, size=5000)
        await until(lambda: bool(outbox.state().fault))
        disk.broken = False
        await asyncio.gather(*futures)
    told = capsys.readouterr().out + caplog.text
    lines = sum(told.count(f"{event.value} ") for event in Event)
    assert lines <= 6
    assert told.count(Event.OUTBOX_FAULT.value) >= 1


async def test_repeated_attempts_never_wait_longer_than_two_seconds():
    assert max(trouble.RETRY_S) <= 2.0


async def test_a_row_whose_mark_cannot_be_written_does_not_leave(open_outbox, monkeypatch):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(),)))
    run = Database.run
    failing = True

    def no_marks(db, statement, values=()):
        if failing and "INTO marks" in statement:
            raise StoreError("SQLITE_READONLY (injected)")
        return run(db, statement, values)

    monkeypatch.setattr(Database, "run", no_marks)
    reading = asyncio.create_task(outbox.read(Lane.TEL, after=0, max_bytes=1000, max_rows=1))
    await asyncio.sleep(0.3)
    assert not reading.done()
    assert await outbox.submit(Commit(rows=(raw(),))) == 2  # commits do not wait for it
    failing = False
    assert [row.seq for row in await asyncio.wait_for(reading, 10)] == [1]


async def test_other_marks_that_cannot_be_written_are_written_later(open_outbox, monkeypatch):
    outbox = await open_outbox()
    run = Database.run
    failing = True

    def no_state(db, statement, values=()):
        if failing and ("INTO identity" in statement or "INTO given" in statement):
            raise StoreError("SQLITE_FULL (injected)")
        return run(db, statement, values)

    monkeypatch.setattr(Database, "run", no_state)
    await outbox.mark_revised(7)
    assert outbox.revised_to == 7
    assert outbox.state().fault == ""
    failing = False
    await outbox.submit(Commit(rows=(raw(),)))
    await outbox.close()
    assert (await open_outbox()).revised_to == 7


@pytest.mark.parametrize("number", ["EIO", "EACCES", "ESTALE"])
async def test_a_disk_on_which_nothing_can_even_be_looked_at_is_only_a_fault(
    open_outbox, disk, monkeypatch, number
):
    outbox = await open_outbox()
    stat = Path.stat
    dying = True

    def failing(path, **more):
        if dying and "outbox" in path.parts:
            raise OSError(getattr(errno, number), number)
        return stat(path, **more)

    monkeypatch.setattr(Path, "stat", failing)
    disk.broken = True
    future = outbox.submit(Commit(rows=(raw(),)))
    await asyncio.sleep(1.0)
    assert outbox.state().fault
    dying = disk.broken = False
    assert await asyncio.wait_for(future, 10) == 1
    assert list((await rows_of(outbox))[0].body) == list(raw().body)
    assert [path.name for path in stored_in(outbox) if "corrupt" in path.name] == []


def stored_in(outbox) -> list[Path]:
    return list(outbox._files.folder.iterdir())
