"""A message is acknowledged after the commit that holds it, and never before, whatever fails."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cloud_hub.errors import BusDown
from cloud_hub.ingest.decode import decode_deliveries
from cloud_hub.ingest.intake import Intake
from cloud_hub.metrics import HubMetrics
from cloud_hub.store.database import Database, writing
from cloud_hub.store.fleet_queries import list_devices, show_device
from cloud_hub.types import Delivery
from contract.status import Lane
from tests.unit.cloud_hub.sample_rows import delivery, raw_row


class Stream:
    """A twin of a work-queue stream: messages come, and come again until they are acknowledged."""

    def __init__(self, *messages: Delivery) -> None:
        self.waiting = [self._watched(number, message) for number, message in enumerate(messages)]
        self.acknowledged: list[int] = []
        self.readings_when_acknowledged: list[int] = []
        self.down = 0
        self.database: Database | None = None
        self.empty = asyncio.Event()

    async def fetch(self, *, max_messages: int, wait_s: float) -> list[Delivery]:
        if self.down:
            self.down -= 1
            raise BusDown("no connection")
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
    stream: Stream, folder: Path, *, max_messages: int = 8
) -> AsyncIterator[Database]:
    """A running intake until the stream is empty."""
    async with writing(f"sqlite+aiosqlite:///{folder / 'hub.db'}") as database:
        stream.database = database
        intake = Intake(
            Lane.TEL,
            source=stream,
            database=database,
            metrics=HubMetrics(),
            max_messages=max_messages,
            max_dead_letters=10,
        )
        running = asyncio.create_task(intake.run(), name="intake")
        async with asyncio.timeout(20):
            await stream.empty.wait()
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
