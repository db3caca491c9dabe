"""A message is acknowledged after the commit that holds it, and never before, whatever fails."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.exc import OperationalError

from cloud_hub.errors import BusDown
from cloud_hub.ingest.decode import decode_deliveries
from cloud_hub.ingest.intake import Intake
from cloud_hub.metrics import HubMetrics
from cloud_hub.store.apply import load_marks
from cloud_hub.store.database import Database, writing
from cloud_hub.store.fleet_queries import list_devices, show_device
from cloud_hub.types import Delivery
from contract.status import Lane
from tests.unit.cloud_hub.sample_rows import delivery, raw_row

KEY = ("d1", "e1", "tel")


class Stream:
    """A twin of a work-queue stream: messages come, and come again until they are acknowledged."""

    def __init__(self, *messages: Delivery) -> None:
        self.waiting = [self._watched(number, message) for number, message in enumerate(messages)]
        self.acknowledged: list[int] = []
        self.readings_when_acknowledged: list[int] = []
        self.down = 0
        self.fetches = 0
        self.database: Database | None = None
        self.empty = asyncio.Event()

    async def fetch(self, *, max_messages: int, wait_s: float) -> list[Delivery]:
        if self.down:
            self.down -= 1
            raise BusDown("no connection")
        self.fetches += 1
        taken = self.waiting[:max_messages]
        if not taken:
            self.empty.set()
            await asyncio.sleep(wait_s)
        return taken

    def _watched(self, number: int, message: Delivery) -> Delivery:
        async def acknowledge() -> None:
            assert self.database is not None
            found = await self.database.read(list_devices)
            self.readings_when_acknowledged.append(sum(each["readings"] for each in found))
            self.acknowledged.append(number)
            self.waiting = [each for each in self.waiting if each.acknowledge is not acknowledge]

        return Delivery(message.subject, message.headers, message.body, acknowledge)


@asynccontextmanager
async def _intake(
    stream: Stream,
    folder: Path,
    *,
    max_messages: int = 8,
    wrap: Callable[[Database], Any] = lambda database: database,
    before: Callable[[Database], Coroutine[Any, Any, None]] | None = None,
) -> AsyncIterator[Database]:
    """A running intake until the stream is empty; `before` runs beside it, from just before it begins."""
    async with writing(f"sqlite+aiosqlite:///{folder / 'hub.db'}") as database:
        stream.database = database
        beside: asyncio.Task[None] | None = None
        if before is not None:
            beside = asyncio.create_task(before(database), name="beside")
            await asyncio.sleep(0.2)
        intake = Intake(
            Lane.TEL,
            source=stream,
            database=wrap(database),
            metrics=HubMetrics(),
            max_messages=max_messages,
            max_dead_letters=10,
        )
        running = asyncio.create_task(intake.run(), name="intake")
        async with asyncio.timeout(20):
            await stream.empty.wait()
            if beside is not None:
                await beside
        intake.stop()
        await running
        yield database


async def test_acknowledged_only_after_the_commit(tmp_path: Path):
    stream = Stream(*(delivery([raw_row(seq)], Lane.TEL) for seq in range(1, 5)))
    async with _intake(stream, tmp_path, max_messages=2):
        assert stream.acknowledged == [0, 1, 2, 3]
        assert stream.readings_when_acknowledged == [8, 8, 16, 16]


async def test_a_lost_connection_is_waited_out(tmp_path: Path):
    stream = Stream(delivery([raw_row(1)], Lane.TEL))
    stream.down = 1
    async with _intake(stream, tmp_path):
        assert stream.acknowledged == [0]


async def test_values_that_the_database_refuses_are_set_aside_alone(tmp_path: Path, monkeypatch):
    from cloud_hub.ingest import intake as module

    honest = decode_deliveries

    def decode(deliveries, lane, *, received_s):
        batch = honest(deliveries, lane, received_s=received_s)
        for row in batch.telemetry:
            if row["seq"] == 2:
                row["stream"] = None
        return batch

    monkeypatch.setattr(module, "decode_deliveries", decode)
    stream = Stream(*(delivery([raw_row(seq)], Lane.TEL) for seq in range(1, 5)))
    async with _intake(stream, tmp_path) as database:
        shown = await database.read(lambda c: show_device(c, "d1"))
    assert shown is not None
    assert sorted(stream.acknowledged) == [0, 1, 2, 3]
    assert shown["streams"][0]["readings"] == 12
    assert sum(shown["dead_letters"].values()) == 1
    assert shown["lanes"][0]["applied"] == 4


async def test_nothing_is_acknowledged_while_the_commit_fails_and_all_is_once_it_does_not(
    tmp_path: Path, monkeypatch
):
    """The rows are inserted, and then the commit fails: no acknowledgement, no watermark, no row."""
    from cloud_hub.ingest import intake as module

    monkeypatch.setattr(module, "RETRY_S", 0.05)
    stream = Stream(*(delivery([raw_row(seq)], Lane.TEL) for seq in range(1, 5)))
    failed: list[tuple[int, int]] = []

    class Failing:
        """A database whose first two commits fail after the insert."""

        def __init__(self, database: Database) -> None:
            self.database = database

        async def write(self, work):
            async def then_fail(connection):
                await work(connection)
                raise OperationalError("COMMIT", None, Exception("disk I/O error"))

            if len(failed) < 2:
                try:
                    await self.database.write(then_fail)
                finally:
                    marks = await self.database.read(lambda c: load_marks(c, [KEY]))
                    failed.append((marks[KEY].applied, len(stream.acknowledged)))
            return await self.database.write(work)

    async with _intake(stream, tmp_path, wrap=Failing) as database:
        marks = await database.read(lambda c: load_marks(c, [KEY]))
        assert failed == [(0, 0), (0, 0)]
        assert (marks[KEY].applied, stream.acknowledged) == (4, [0, 1, 2, 3])
        assert stream.readings_when_acknowledged == [16] * 4
        assert database.fault == ""


async def test_a_commit_that_hangs_stops_the_fetching(tmp_path: Path):
    stream = Stream(*(delivery([raw_row(seq)], Lane.TEL) for seq in range(1, 40)))
    hanging, goes_on = asyncio.Event(), asyncio.Event()

    class Hanging:
        def __init__(self, database: Database) -> None:
            self.database = database

        async def write(self, work):
            async def slow(connection):
                found = await work(connection)
                hanging.set()
                await goes_on.wait()
                return found

            return await self.database.write(slow)

    async def release() -> None:
        await hanging.wait()
        fetched = stream.fetches
        await asyncio.sleep(0.2)
        assert (stream.fetches, stream.acknowledged) == (fetched, [])
        goes_on.set()

    releasing = asyncio.create_task(release())
    async with _intake(stream, tmp_path, wrap=Hanging):
        await releasing
        assert sorted(stream.acknowledged) == list(range(39))


async def test_a_database_that_is_locked_by_another_is_waited_for(tmp_path: Path, monkeypatch):
    from cloud_hub.ingest import intake as module
    from cloud_hub.store import engine

    monkeypatch.setattr(module, "RETRY_S", 0.05)
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 100)
    stream = Stream(delivery([raw_row(1)], Lane.TEL))
    path = tmp_path / "hub.db"
    seen: list[str] = []

    def lock() -> sqlite3.Connection:
        other = sqlite3.connect(path, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        return other

    async def release(database: Database) -> None:
        other = await asyncio.to_thread(lock)
        async with asyncio.timeout(10):
            while not database.fault:
                await asyncio.sleep(0.01)
        seen.append(database.fault)
        assert stream.acknowledged == []
        await asyncio.to_thread(other.rollback)
        await asyncio.to_thread(other.close)

    async with _intake(stream, tmp_path, before=release) as database:
        assert "locked" in seen[0]
        assert (database.fault, stream.acknowledged) == ("", [0])
