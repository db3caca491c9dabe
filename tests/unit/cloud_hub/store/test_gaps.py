"""A gap counts what is missing here: rows that were given up and came all the same are no loss, now or later."""

from pathlib import Path

import pytest

from cloud_hub.fleet.forgone import forgone_rows
from cloud_hub.ingest.decode import decode_deliveries
from cloud_hub.store.apply import apply_batch, load_marks
from cloud_hub.store.database import Database, writing
from cloud_hub.store.gap_queries import declared_gaps
from cloud_hub.store.statistics import telemetry_figures
from cloud_hub.store.tables import gaps
from contract.messages import Gap, LaneReport, Row
from contract.status import Lane
from tests.unit.cloud_hub.sample_rows import delivery, gap_row, raw_row, rollup_row

EACH = 4
"""Readings in a sample row."""


@pytest.fixture
async def database(tmp_path: Path):
    async with writing(f"sqlite+aiosqlite:///{tmp_path / 'hub.db'}") as opened:
        yield opened


async def store(database: Database, *rows: Row, lane: Lane = Lane.TEL, epoch: str = "e1") -> None:
    batch = decode_deliveries([delivery(rows, lane, epoch=epoch)], lane, received_s=1.0)
    await database.write(lambda c: apply_batch(c, batch, max_dead_letters=9))


async def declare(database: Database, seq: int, gap: Gap, *, epoch: str = "e1") -> None:
    await store(database, gap_row(seq, gap), lane=Lane.EVT, epoch=epoch)


async def counts(database: Database) -> list[tuple[int, int, int]]:
    """Of each record, in order: readings that are missing, declared, held."""
    c = gaps.c
    statement = gaps.select().order_by(c.epoch, c.lane, c.seq)
    rows = await database.read(lambda connection: connection.execute(statement))
    return [(row.readings, row.declared, row.held_readings) for row in rows]


def unconfirmed(first: int, last: int, *, stride: int = 1, rows: int, reason="unconfirmed") -> Gap:
    return Gap(Lane.TEL, first, last, stride, rows * EACH, reason)


async def test_rows_that_are_here_already_are_not_counted_as_lost(database):
    await store(database, raw_row(1), raw_row(2), raw_row(4))
    await declare(database, 1, unconfirmed(2, 5, rows=4))
    assert await counts(database) == [(2 * EACH, 4 * EACH, 2 * EACH)]


async def test_rows_that_come_later_all_the_same_correct_the_count(database):
    await declare(database, 1, unconfirmed(2, 5, rows=4))
    assert await counts(database) == [(4 * EACH, 4 * EACH, 0)]
    await store(database, raw_row(2))
    await store(database, raw_row(2), raw_row(5))
    assert await counts(database) == [(2 * EACH, 4 * EACH, 2 * EACH)]
    await store(database, raw_row(3), raw_row(4))
    assert await counts(database) == [(0, 4 * EACH, 4 * EACH)]
    assert await database.read(lambda c: declared_gaps(c, "d1")) == ()


async def test_the_same_record_again_changes_nothing(database):
    await declare(database, 1, unconfirmed(2, 5, rows=4))
    await store(database, raw_row(2))
    await declare(database, 1, unconfirmed(2, 5, rows=4))
    assert await counts(database) == [(3 * EACH, 4 * EACH, EACH)]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("rows_first", [True, False])
async def test_a_row_under_several_records_counts_for_the_one_that_gave_it_up(
    database, order, rows_first
):
    """Of 8 rows the odd ones were given up first, then 2 and 6, then 4 and 8; 1, 2, 3 and 8 are here."""
    records = [
        unconfirmed(1, 8, stride=2, rows=4),
        unconfirmed(1, 8, stride=4, rows=2),
        unconfirmed(1, 8, rows=2),
    ]
    held = [raw_row(seq) for seq in (1, 2, 3, 8)]
    if rows_first:
        await store(database, *held)
    for number in order:
        await declare(database, number + 1, records[number])
    if not rows_first:
        await store(database, *held)
    assert await counts(database) == [
        (2 * EACH, 4 * EACH, 2 * EACH),
        (EACH, 2 * EACH, EACH),
        (EACH, 2 * EACH, EACH),
    ]


async def test_kept_rows_of_a_thinned_stretch_are_no_part_of_the_gap(database):
    await store(database, *(raw_row(seq) for seq in (4, 8, 12)))
    await declare(database, 1, unconfirmed(1, 12, stride=4, rows=9, reason="quota"))
    assert await counts(database) == [(9 * EACH, 9 * EACH, 0)]


async def test_a_lost_outbox_is_counted_for_its_own_epoch(database):
    await store(database, raw_row(1), raw_row(2), raw_row(3), epoch="e0")
    await store(database, raw_row(1), raw_row(2), epoch="e1")
    lost = Gap(Lane.TEL, 2, 6, 1, 5 * EACH, "lost", epoch="e0")
    await declare(database, 1, lost, epoch="e1")
    assert await counts(database) == [(3 * EACH, 5 * EACH, 2 * EACH)]
    keys = [("d1", "e0", "tel"), ("d1", "e1", "tel")]
    marks = await database.read(lambda c: load_marks(c, keys))
    assert [marks[key].applied for key in keys] == [6, 2]
    await store(database, raw_row(6), epoch="e0")
    assert await counts(database) == [(2 * EACH, 5 * EACH, 3 * EACH)]


async def test_rows_without_readings_are_counted_as_rows(database):
    await store(database, rollup_row(2), raw_row(3))
    await declare(database, 1, Gap(Lane.TEL, 2, 3, 1, EACH, "unconfirmed"))
    rows = await database.read(lambda c: c.execute(gaps.select()))
    (row,) = rows.all()
    assert (row.held_rows, row.held_readings, row.readings) == (2, EACH, 0)


async def test_rows_that_nobody_has_are_told_as_not_counted_in_each_lane(database):
    lanes = {
        "evt": LaneReport("e1", next_seq=4, sent=3, first_kept=4),
        "tel": LaneReport("e1", next_seq=4, sent=3, first_kept=4),
    }
    keys = {name: ("d1", "e1", name) for name in lanes}
    for _ in range(2):
        marks = await database.read(lambda c: load_marks(c, keys.values()))
        batch = forgone_rows(lanes, keys, marks, pending={}, now_s=1.0)
        if batch is not None:
            await database.write(lambda c, b=batch: apply_batch(c, b, max_dead_letters=0))
    rows = (await database.read(lambda c: c.execute(gaps.select()))).all()
    assert sorted((row.gap_lane, row.exact) for row in rows) == [("evt", False), ("tel", False)]
    (gap,) = await database.read(lambda c: declared_gaps(c, "d1"))
    assert (gap.exact, gap.readings) == (False, 0)


async def test_neighbours_tell_when_a_long_or_thinned_gap_was(database):
    await store(database, *(raw_row(seq) for seq in (1, 40, 80, 101)))
    await declare(database, 1, unconfirmed(2, 30, rows=29, reason="quota"))
    await declare(database, 2, unconfirmed(41, 100, stride=8, rows=53, reason="quota"))
    found = await database.read(lambda c: declared_gaps(c, "d1"))
    assert [(gap.after_s, gap.before_s) for gap in found] == [(13.0, 400.0), (403.0, 1010.0)]
    within = await database.read(lambda c: declared_gaps(c, "d1", from_s=500.0, to_s=600.0))
    assert [gap.first for gap in within] == [41]


async def test_neighbours_are_of_the_epoch_that_the_gap_is_of(database):
    await store(database, raw_row(1), raw_row(2), epoch="e0")
    await store(database, *(raw_row(seq, [1000.0 + seq]) for seq in range(1, 9)), epoch="e1")
    await declare(database, 1, Gap(Lane.TEL, 3, 6, 1, 16, "lost", epoch="e0"), epoch="e1")
    (gap,) = await database.read(lambda c: declared_gaps(c, "d1"))
    assert (gap.epoch, gap.after_s, gap.before_s) == ("e0", 23.0, None)


async def test_coverage_is_what_is_stored_of_what_there_was(database):
    await store(database, *(raw_row(seq) for seq in (1, 2, 3, 6)))
    await declare(database, 1, unconfirmed(3, 5, rows=3))
    found = await database.read(lambda c: telemetry_figures(c, "d1"))
    assert (found.stored, found.lost, found.exact) == (4 * EACH, 2 * EACH, True)
    assert found.coverage == pytest.approx(4 / 6)


async def test_figures_do_not_depend_on_how_often_rows_came(database):
    for _ in range(3):
        await store(database, raw_row(1), raw_row(2, stream="fan"))
    found = await database.read(lambda c: telemetry_figures(c, "d1", from_s=11.0, to_s=22.0))
    assert [(each.stream, each.readings) for each in found.streams] == [("fan", 2), ("pump", 3)]
    first = found.streams[1].channels[0]
    assert (first.count, first.minimum, first.maximum, first.mean) == (3, 2.0, 6.0, 4.0)
