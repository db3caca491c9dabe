"""The database opens what is its own, refuses what is not, and survives callers that go away."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text

from cloud_hub.errors import (
    ConfigurationError,
    SchemaMismatch,
    StoreError,
    StoreMissing,
    StoreRejected,
)
from cloud_hub.store.database import Database, writing
from cloud_hub.store.tables import devices


def _url(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


def _device(name: str) -> dict[str, object]:
    return {"device": name, "first_seen_s": 1.0, "last_seen_s": 1.0, "revision_seq": 0}


async def test_sqlite_syncs_every_commit_and_writes_ahead(tmp_path: Path):
    async with writing(_url(tmp_path / "new" / "hub.db")) as database:
        journal = await database.read(lambda c: c.scalar(text("PRAGMA journal_mode")))
        synchronous = await database.read(lambda c: c.scalar(text("PRAGMA synchronous")))
    assert (journal, synchronous) == ("wal", 2)


async def test_a_reader_of_a_missing_database_is_told_so_and_makes_none(tmp_path: Path):
    with pytest.raises(StoreMissing, match="there is no database at"):
        await Database.open_reader(_url(tmp_path / "hub.db"))
    assert not (tmp_path / "hub.db").exists()


async def test_a_reader_cannot_write(tmp_path: Path):
    async with writing(_url(tmp_path / "hub.db")):
        reader = await Database.open_reader(_url(tmp_path / "hub.db"))
        with pytest.raises(StoreError, match="readonly"):
            await reader.read(lambda c: c.execute(insert(devices), [_device("d1")]))
        await reader.close()


async def test_a_database_of_another_version_is_refused(tmp_path: Path):
    async with writing(_url(tmp_path / "hub.db")) as database:
        change = text("UPDATE hub_meta SET value = '99'")
        await database.write(lambda c: c.execute(change))
    with pytest.raises(SchemaMismatch, match="schema 99"):
        await Database.open(_url(tmp_path / "hub.db"))


async def test_a_database_with_foreign_tables_is_refused(tmp_path: Path):
    def make() -> None:
        connection = sqlite3.connect(tmp_path / "hub.db")
        connection.execute("CREATE TABLE songs (title TEXT)")
        connection.close()

    await asyncio.to_thread(make)
    with pytest.raises(SchemaMismatch, match="not the hub's"):
        await Database.open(_url(tmp_path / "hub.db"))


async def test_a_file_that_is_no_database_is_an_error_for_people(tmp_path: Path):
    (tmp_path / "hub.db").write_bytes(
        b"this is no database, and long enough to be read as one" * 20
    )
    with pytest.raises(StoreError, match="not a database"):
        await Database.open(_url(tmp_path / "hub.db"))


async def test_memory_is_refused():
    with pytest.raises(ConfigurationError, match="must name a file"):
        await Database.open("sqlite+aiosqlite:///:memory:")


async def test_a_cancelled_caller_leaves_no_open_transaction(tmp_path: Path):
    async with writing(_url(tmp_path / "hub.db")) as database:
        begun = asyncio.Event()

        async def slow(connection):
            await connection.execute(insert(devices), [_device("slow")])
            begun.set()
            await asyncio.sleep(0.05)

        caller = asyncio.create_task(database.write(slow), name="caller")
        await begun.wait()
        caller.cancel()
        await asyncio.wait([caller])
        await database.write(lambda c: c.execute(insert(devices), [_device("next")]))
        names = await database.read(
            lambda c: c.scalar(text("SELECT group_concat(device, ',') FROM devices"))
        )
    assert sorted(names.split(",")) == ["next", "slow"]


async def test_a_read_of_an_impossible_number_is_refused(tmp_path: Path):
    async with writing(_url(tmp_path / "hub.db")) as database:
        statement = select(devices).where(devices.c.revision_seq > 2**63)
        with pytest.raises(StoreRejected, match="refuses the values"):
            await database.read(lambda c: c.execute(statement))
