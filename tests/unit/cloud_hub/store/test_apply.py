"""Applying a batch twice, in parts or in another order changes nothing; marks move with the rows."""

from pathlib import Path

import pytest
from sqlalchemy import select

from cloud_hub.errors import StoreRejected
from cloud_hub.ingest.decode import decode_deliveries
from cloud_hub.store.apply import Applied, Batch, apply_batch, load_marks
from cloud_hub.store.database import Database, writing
from cloud_hub.store.fleet_queries import list_devices, show_device
from cloud_hub.store.marks import Marks
from cloud_hub.store.tables import dead_letters
from contract.messages import Gap
from contract.status import Lane
from tests.unit.cloud_hub.sample_rows import (
    delivery,
    gap_row,
    raw_row,
    revision_row,
    rollup_row,
    verdict_row,
)


def _url(folder: Path) -> str:
    return f"sqlite+aiosqlite:///{folder / 'data' / 'hub.db'}"


async def _apply(database: Database, batch: Batch) -> Applied:
    return await database.write(lambda c: apply_batch(c, batch, max_dead_letters=3))


def _batch(rows, lane=Lane.TEL, **where) -> Batch:
    return decode_deliveries([delivery(rows, lane, **where)], lane, received_s=1000.0)


async def _marks(database: Database, lane: Lane = Lane.TEL, epoch: str = "e1") -> Marks:
    key = ("d1", epoch, lane.value)
    return (await database.read(lambda c: load_marks(c, [key])))[key]


async def test_rows_are_stored_once_however_often_they_come(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        first = await _apply(database, _batch([raw_row(1), raw_row(2), rollup_row(3)]))
        again = await _apply(database, _batch([raw_row(2), rollup_row(3), raw_row(4)]))
        (device,) = await database.read(list_devices)
        marks = await _marks(database)
    assert first == Applied(rows=3, readings=8, duplicates=0)
    assert again == Applied(rows=1, readings=4, duplicates=2)
    assert device["readings"] == 12
    assert marks.applied == 4


async def test_a_hole_holds_the_watermark_and_is_told(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        await _apply(database, _batch([raw_row(1), raw_row(2)]))
        await _apply(database, _batch([raw_row(5), raw_row(6)]))
        holed = await _marks(database)
        await _apply(database, _batch([raw_row(3), raw_row(4)]))
        whole = await _marks(database)
    assert (holed.applied, holed.missing(limit=64)) == (2, ((3, 4),))
    assert (whole.applied, whole.missing(limit=64)) == (6, ())


async def test_a_gap_record_makes_what_it_covers_applied_and_keeps_what_it_keeps(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        gaps = [
            gap_row(1, Gap(Lane.TEL, 1, 3, 1, 12, "quota")),
            gap_row(2, Gap(Lane.TEL, 4, 9, 4, 20, "quota")),
        ]
        await _apply(database, _batch(gaps, Lane.EVT))
        after_gaps = await _marks(database)
        await _apply(database, _batch([raw_row(4)]))
        await _apply(database, _batch([raw_row(8)]))
        after_rows = await _marks(database)
        shown = await database.read(lambda c: show_device(c, "d1"))
    assert after_gaps.applied == 3
    assert after_rows.applied == 9
    assert shown is not None
    assert shown["gaps"] == {"records": 2, "readings": 32, "held": 0, "exact": True}


async def test_a_new_epoch_is_a_new_sequence(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        await _apply(database, _batch([raw_row(1)]))
        await _apply(database, _batch([raw_row(1)], epoch="e2"))
        (device,) = await database.read(list_devices)
        old, new = await _marks(database), await _marks(database, epoch="e2")
    assert device["readings"] == 8
    assert (old.applied, new.applied) == (1, 1)


async def test_events_and_reported_revisions_are_stored(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        rows = [verdict_row(1), revision_row(2), verdict_row(3, "v2")]
        await _apply(database, _batch(rows, Lane.EVT))
        await _apply(database, _batch(rows, Lane.EVT))
        shown = await database.read(lambda c: show_device(c, "d1"))
    assert shown is not None
    assert shown["events"] == {"revision": 1, "verdict": 2}
    assert shown["revised"] == {"device": 1}


@pytest.mark.parametrize("together", [True, False])
async def test_dead_letters_are_bounded_and_what_was_set_aside_stays_settled(
    tmp_path: Path, together: bool
):
    bad = [verdict_row(seq) for seq in range(1, 7)]
    async with writing(_url(tmp_path)) as database:
        for rows in [bad] if together else [[each] for each in bad]:
            await _apply(database, _batch(rows, Lane.TEL))
        shown = await database.read(lambda c: show_device(c, "d1"))
        marks = await _marks(database)
    assert shown is not None
    assert sum(shown["dead_letters"].values()) == 3
    assert marks.applied == 6


async def test_of_too_many_dead_letters_the_newest_stay(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        for seq in range(1, 7):
            rows = [delivery([verdict_row(seq)], Lane.TEL)]
            await _apply(database, decode_deliveries(rows, Lane.TEL, received_s=float(seq)))
        kept = await database.read(lambda c: c.scalars(select(dead_letters.c.first)))
    assert sorted(kept) == [4, 5, 6]


async def test_a_batch_is_stored_whole_or_not_at_all(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        batch = _batch([raw_row(1), raw_row(2)])
        batch.telemetry[1]["stream"] = None
        with pytest.raises(StoreRejected):
            await _apply(database, batch)
        assert await database.read(list_devices) == []
        assert (await _marks(database)).applied == 0
        assert (await _apply(database, _batch([raw_row(1)]))).rows == 1
