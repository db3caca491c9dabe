"""One door to the database: reads run side by side, writes one after another in a task of their own.

A caller that is cancelled leaves no open transaction: the writer owns the connection, the caller only waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from sqlalchemy import inspect, select
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from cloud_hub.errors import SchemaMismatch, StoreError, StoreRejected
from cloud_hub.store.engine import WRITE, make_engine
from cloud_hub.store.migrations import can_upgrade, load_tool, upgrade
from cloud_hub.store.statements import insert_ignore
from cloud_hub.store.tables import SCHEMA_VERSION, hub_meta, metadata

MAX_WAITING_WRITES: Final = 256

T = TypeVar("T")
Connection = AsyncConnection
"""What a read or write works on; other rooms name the type by this door."""
Work = Callable[[AsyncConnection], Awaitable[T]]
_Waiting = tuple[Work[Any], "asyncio.Future[Any]"]


class Database:
    """The hub's database; `run` must be running for `write` to return."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._writes: asyncio.Queue[_Waiting | None] = asyncio.Queue(MAX_WAITING_WRITES)
        self._fault = ""

    @property
    def fault(self) -> str:
        """Why the last write failed, or "" after one that did not."""
        return self._fault

    @classmethod
    async def open(cls, url: str) -> Database:
        """Opens the database; makes its tables where there are none, and brings older ones up to date.

        Raises SchemaMismatch for a database of another version, StoreError when it cannot be opened.
        """
        database = cls(await make_engine(url))
        try:
            await database._transaction(_ensure_schema)
        except BaseException:
            await database.close()
            raise
        return database

    @classmethod
    async def open_reader(cls, url: str) -> Database:
        """Opens an existing database for reading only; raises StoreMissing, SchemaMismatch or StoreError."""
        database = cls(await make_engine(url, read_only=True))
        try:
            await database.read(_check_schema)
        except BaseException:
            await database.close()
            raise
        return database

    async def read(self, work: Work[T]) -> T:
        """What `work` reads, in one transaction; raises StoreError, StoreRejected for impossible values."""
        try:
            async with self._engine.connect() as connection, connection.begin():
                return await work(connection)
        except (DataError, OverflowError, UnicodeError) as error:
            raise StoreRejected(f"the database refuses the values: {_first_line(error)}") from error
        except (SQLAlchemyError, OSError) as error:
            raise StoreError(f"the database cannot be read: {_first_line(error)}") from error

    async def write(self, work: Work[T]) -> T:
        """What `work` returned, after its transaction has committed; all of it is stored, or nothing.

        Cancelling the call does not stop a transaction that has begun. `work` may be run once only.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        await self._writes.put((work, done))
        return await done

    async def run(self) -> None:
        """Writes what `write` is given, in order, until `finish`; a failed write harms nobody else."""
        while (waiting := await self._writes.get()) is not None:
            work, done = waiting
            if done.cancelled():
                continue
            try:
                result = await self._transaction(work)
            except StoreError as error:
                if not isinstance(error, StoreRejected):
                    await self._distrust(str(error))
                if not done.cancelled():
                    done.set_exception(error)
            else:
                self._fault = ""
                if not done.cancelled():
                    done.set_result(result)

    async def finish(self) -> None:
        """Lets `run` end once all that was given before has been written."""
        await self._writes.put(None)

    async def close(self) -> None:
        """Closes every connection."""
        await self._engine.dispose()

    async def _distrust(self, why: str) -> None:
        """Notes a failed write, and lets the next one begin on a new connection that reads the files anew."""
        self._fault = why
        try:
            await self._engine.dispose()
        except (SQLAlchemyError, OSError) as error:
            self._fault = f"{why}; closing it: {_first_line(error)}"

    async def _transaction(self, work: Work[T]) -> T:
        try:
            async with self._engine.connect() as connection:
                await connection.execution_options(**{WRITE: True})
                async with connection.begin():
                    return await work(connection)
        except (IntegrityError, DataError, OverflowError, UnicodeError) as error:
            raise StoreRejected(f"the database refuses the values: {_first_line(error)}") from error
        except (SQLAlchemyError, OSError) as error:
            raise StoreError(f"the database cannot be written: {_first_line(error)}") from error


@asynccontextmanager
async def writing(url: str) -> AsyncIterator[Database]:
    """An open database with its writer running, for the length of the block."""
    database = await Database.open(url)
    writer = asyncio.create_task(database.run(), name="store-writer")
    try:
        yield database
    finally:
        await database.finish()
        await writer
        await database.close()


async def _ensure_schema(connection: AsyncConnection) -> None:
    tables = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    if tables and hub_meta.name not in tables:
        raise SchemaMismatch(
            "the database holds tables that are not the hub's; give the hub a database of its own ([store])"
        )
    if not tables:
        await connection.run_sync(metadata.create_all)
        row = {"key": "schema_version", "value": str(SCHEMA_VERSION)}
        await connection.execute(insert_ignore(connection, hub_meta), row)
    found = await _stamp(connection)
    if found is not None and can_upgrade(found):
        await asyncio.to_thread(load_tool)
        await connection.run_sync(lambda sync: upgrade(sync, found))
    await _check_schema(connection)


async def _check_schema(connection: AsyncConnection) -> None:
    found = await _stamp(connection)
    if found == str(SCHEMA_VERSION):
        return
    advice = (
        "`cloud-hub serve` of this version brings it up to date"
        if can_upgrade(found)
        else "run the hub that made it, or name another database in [store]"
    )
    raise SchemaMismatch(
        f"the database has schema {found}, this hub needs {SCHEMA_VERSION}: {advice}"
    )


async def _stamp(connection: AsyncConnection) -> str | None:
    return await connection.scalar(
        select(hub_meta.c.value).where(hub_meta.c.key == "schema_version")
    )


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).splitlines()[0]
