"""A database of an older hub is brought up to date whole or not at all, and its times can be repaired."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect

from cloud_hub.errors import SchemaMismatch, StoreError
from cloud_hub.fleet.repairs import RepairDesk
from cloud_hub.ingest.decode import decode_deliveries
from cloud_hub.metrics import HubMetrics
from cloud_hub.store import migrations
from cloud_hub.store.apply import apply_batch
from cloud_hub.store.database import Database, writing
from cloud_hub.store.fleet_queries import show_device
from contract.encoding import encode
from contract.messages import Clock, RawRow, Row
from contract.status import Lane, RowClass
from tests.unit.cloud_hub.sample_rows import delivery, raw_group

NOW_S = 1_796_000_000.0


@pytest.fixture
async def old(tmp_path: Path) -> str:
    def make() -> None:
        connection = sqlite3.connect(tmp_path / "old.db")
        connection.executescript(Path(__file__).with_name("schema_1.sql").read_text())
        connection.close()

    await asyncio.to_thread(make)
    return f"sqlite+aiosqlite:///{tmp_path / 'old.db'}"


def _where(index) -> dict[str, str]:
    return {name: str(where) for name, where in index["dialect_options"].items()}


async def _shape(url: str) -> dict[str, Any]:
    """Every table's columns, with their types and whether they may be empty, and its indexes."""

    def look(connection) -> dict[str, Any]:
        found = inspect(connection)
        return {
            table: (
                sorted(
                    (each["name"], str(each["type"]), each["nullable"])
                    for each in found.get_columns(table)
                ),
                sorted(
                    (each["name"], tuple(each["column_names"]), str(_where(each)))
                    for each in found.get_indexes(table)
                ),
            )
            for table in sorted(found.get_table_names())
        }

    async with writing(url) as database:
        return await database.read(lambda c: c.run_sync(look))


async def test_an_old_database_becomes_what_a_new_one_is(old: str, tmp_path: Path):
    upgraded = await _shape(old)
    made = await _shape(f"sqlite+aiosqlite:///{tmp_path / 'new.db'}")
    for table in ("events", "rollups", "telemetry"):  # a column that was added may be empty
        assert [each[:2] for each in upgraded[table][0]] == [each[:2] for each in made[table][0]]
    assert upgraded == made


async def test_a_reader_of_an_old_database_is_told_who_brings_it_up_to_date(old: str):
    with pytest.raises(SchemaMismatch, match="`cloud-hub serve` of this version"):
        await Database.open_reader(old)


async def test_what_was_stored_is_there_and_can_be_repaired(old: str):
    clock = Clock("b1", 500.0, NOW_S, trusted=True)
    row = Row(2, RowClass.RAW, encode(RawRow(clock, (raw_group([NOW_S]),))))
    batch = decode_deliveries([delivery([row], Lane.TEL)], Lane.TEL, received_s=NOW_S)
    async with writing(old) as database:
        before = await database.read(lambda c: show_device(c, "d1"))
        await database.write(lambda c: apply_batch(c, batch, max_dead_letters=1))
        await RepairDesk(database, metrics=HubMetrics()).repair(("d1", "b1"))
        after = await database.read(lambda c: show_device(c, "d1"))
    assert before is not None
    assert after is not None
    assert before["gaps"] == {"records": 1, "readings": 8, "held": 0, "exact": True}
    assert before["times"]["in_doubt"] == 1
    assert after["streams"][0]["from_s"] == NOW_S - 490


async def test_a_step_that_fails_leaves_the_old_database_as_it_was(old: str, monkeypatch):
    def half(operations) -> None:
        operations.execute("ALTER TABLE gaps ADD COLUMN half INTEGER")
        operations.execute("this is no statement")

    with monkeypatch.context() as patch:
        patch.setitem(migrations._STEPS, 1, half)
        with pytest.raises(StoreError, match="syntax error"):
            await Database.open(old)
    async with writing(old) as database:
        assert await database.read(lambda c: show_device(c, "d1")) is not None
