"""Connections that keep their promises: SQLite in WAL mode with synchronous=FULL, explicit transactions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from sqlalchemy import event
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from cloud_hub.errors import ConfigurationError, StoreError, StoreMissing

BUSY_TIMEOUT_MS: Final = 5000
WRITE: Final = "hub_write"
"""Execution option of a connection that will write: SQLite then takes the write lock at BEGIN, so that a
transaction that reads first cannot fail later because somebody else wrote in between."""


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite URL, or None for another database."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    if not parsed.database or parsed.database == ":memory:":
        raise ConfigurationError(
            f"[store] url {url!r} must name a file: what is in memory is not kept"
        )
    return Path(parsed.database)


async def make_engine(url: str, *, read_only: bool = False) -> AsyncEngine:
    """An engine for the URL; makes the folder of a new SQLite file, or refuses a missing one to readers.

    Raises ConfigurationError, StoreMissing or StoreError.
    """
    return await asyncio.to_thread(_make_engine, url, read_only=read_only)


def _make_engine(url: str, *, read_only: bool) -> AsyncEngine:
    try:
        path = sqlite_path(url)
        if path is None:
            return create_async_engine(url, pool_size=4, pool_pre_ping=True)
    except (ArgumentError, ModuleNotFoundError) as error:
        raise ConfigurationError(f"[store] url: {error}") from error
    _prepare(path, read_only=read_only)
    if read_only:
        url = f"sqlite+aiosqlite:///file:{path.resolve()}?mode=ro&uri=true"
    timeout_s = BUSY_TIMEOUT_MS / 1000
    engine = create_async_engine(url, pool_size=4, connect_args={"timeout": timeout_s})
    event.listen(engine.sync_engine, "connect", _on_connect_reader if read_only else _on_connect)
    event.listen(engine.sync_engine, "begin", _on_begin)
    return engine


def _prepare(path: Path, *, read_only: bool) -> None:
    if read_only:
        if not path.exists():
            raise StoreMissing(
                f"there is no database at {path}. Has the hub run with this configuration? "
                "Name its configuration with --config."
            )
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make {path.parent} for the database: {error.strerror}. "
            "Set [store] data_dir to a folder that the hub may write."
        ) from error


def _on_connect(connection: Any, _: Any) -> None:
    _on_connect_reader(connection, _)
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _on_connect_reader(connection: Any, _: Any) -> None:
    connection.isolation_level = (
        None  # the driver would otherwise begin transactions by its own rules
    )
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    cursor.close()


def _on_begin(connection: Connection) -> None:
    write = connection.get_execution_options().get(WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
