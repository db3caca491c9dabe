"""Readings come back by stream and time, newest first cut off, and holes are shown as holes."""

from pathlib import Path

import pytest

from cloud_hub.ingest.decode import decode_deliveries
from cloud_hub.store.apply import apply_batch
from cloud_hub.store.database import Database, writing
from cloud_hub.store.telemetry_queries import query_telemetry
from contract.messages import Gap
from contract.status import Lane
from tests.unit.cloud_hub.sample_rows import delivery, gap_row, raw_row


@pytest.fixture
async def database(tmp_path: Path):
    async with writing(f"sqlite+aiosqlite:///{tmp_path / 'hub.db'}") as opened:
        yield opened


async def _store(database: Database, rows, lane: Lane = Lane.TEL, device: str = "d1") -> None:
    batch = decode_deliveries([delivery(rows, lane, device=device)], lane, received_s=1.0)
    await database.write(lambda c: apply_batch(c, batch, max_dead_letters=1))


async def _times(database: Database, **options) -> list[float]:
    answer = await database.read(lambda c: query_telemetry(c, "d1", **options))
    return [time for group in answer.groups for time in group.times.tolist()]


async def test_readings_come_in_order_of_time_within_the_range(database: Database):
    await _store(database, [raw_row(1), raw_row(2), raw_row(3)])
    assert await _times(database, from_s=12.0, to_s=22.0) == [12.0, 13.0, 20.0, 21.0]


async def test_the_newest_are_kept_and_the_cut_is_told(database: Database):
    await _store(database, [raw_row(1), raw_row(2)])
    answer = await database.read(lambda c: query_telemetry(c, "d1", limit=5))
    assert [t for g in answer.groups for t in g.times.tolist()] == [13.0, 20.0, 21.0, 22.0, 23.0]
    assert answer.truncated


async def test_only_the_stream_and_device_that_were_asked_for(database: Database):
    await _store(database, [raw_row(1), raw_row(2, stream="fan")])
    await _store(database, [raw_row(3)], device="d2")
    assert await _times(database, stream="fan") == [20.0, 21.0, 22.0, 23.0]
    assert len(await _times(database)) == 8


async def test_values_keep_their_channels(database: Database):
    await _store(database, [raw_row(1)])
    answer = await database.read(lambda c: query_telemetry(c, "d1"))
    (group,) = answer.groups
    assert (group.channels, group.units) == (("a", "b"), ("m", "m"))
    assert group.values.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


async def test_a_declared_gap_lies_between_its_neighbours(database: Database):
    await _store(database, [raw_row(1), raw_row(5)])
    await _store(database, [gap_row(1, Gap(Lane.TEL, 2, 4, 1, 12, "quota"))], Lane.EVT)
    answer = await database.read(lambda c: query_telemetry(c, "d1"))
    (gap,) = answer.gaps
    assert (gap.readings, gap.after_s, gap.before_s, gap.reason) == (12, 13.0, 50.0, "quota")
    elsewhere = await database.read(lambda c: query_telemetry(c, "d1", from_s=60.0))
    assert elsewhere.gaps == ()
