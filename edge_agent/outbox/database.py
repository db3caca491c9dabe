"""One SQLite file that this process alone holds; the only module of the device that knows SQLite.

Every error of SQLite becomes one of three, sorted by what the caller does about it:

    StoreError     the disk failed (I/O, permissions, a lock): close, open again, read again, go on
    StoreFull      the quota or the disk is full: shed, then try again
    StoreCorrupt   what the file says is impossible: set it aside and begin a new one

Durability: WAL with `synchronous=FULL`: when a transaction has ended it is on the disk. With
Durability.KILL it survives a kill of the process, and perhaps not a power cut.

The file never shrinks (`auto_vacuum` is off): freed pages are used again, the quota bounds the file,
and moving pages to give back space would write every row of a queue twice.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final

from edge_agent.errors import StoreError, StoreFull

PAGE_BYTES: Final = 4096
_MAX_WAL_PAGES: Final = 1000
_STEP_PAGES: Final = 128
"""About as many pages as one step of shedding changes."""
_FULL: Final = {sqlite3.SQLITE_FULL}
_CORRUPT: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT}

Values = Sequence[Any]
Tuple = tuple[Any, ...]


class StoreCorrupt(StoreError):
    """The file contradicts itself: it is set aside, and a new one is begun."""


class Durability(Enum):
    """What a finished transaction survives."""

    POWER_CUT = "FULL"
    """Everything; costs an fsync a transaction."""
    KILL = "NORMAL"
    """A kill of the process; a power cut may take the last transactions back, in order."""


class Database:
    """An open file. Only the thread that opened it may use it.

    Duplicates, order: as SQL says. Failure: a transaction is whole or absent; after StoreError the
    object must be closed and opened again, since SQLite's own state may differ from the disk.
    """

    def __init__(self, connection: sqlite3.Connection, *, page_limit: int) -> None:
        self._connection = connection
        self.page_limit = page_limit

    @classmethod
    def open(cls, path: Path, *, schema: str, quota_bytes: int, durability: Durability) -> Database:
        """Opens or makes the file, cuts a torn tail, and takes the lock; raises StoreError."""
        made = not path.exists()
        pages = max(quota_bytes // PAGE_BYTES, 64)
        wal_pages = min(_MAX_WAL_PAGES, max(pages // 16, 16))
        # The log is moved into the file at `wal_pages`; one more transaction, whose shedding rewrites
        # some hundred rows, may stand in it by then.
        reserve = 2 * wal_pages + min(_STEP_PAGES, pages // 8)
        page_limit = max(pages - reserve, 32)
        with translated(f"cannot open {path}"):
            connection = sqlite3.connect(path, timeout=1.0, isolation_level=None)
            connection.text_factory = _tolerant
            try:
                for name, value in (
                    ("locking_mode", "EXCLUSIVE"),
                    ("page_size", PAGE_BYTES),
                    ("journal_mode", "WAL"),
                    ("synchronous", durability.value),
                    ("wal_autocheckpoint", wal_pages),
                    ("journal_size_limit", wal_pages * 2 * PAGE_BYTES),
                    ("max_page_count", page_limit),
                    ("cache_size", -512),
                    ("mmap_size", 0),
                    ("trusted_schema", 0),
                ):
                    connection.execute(f"PRAGMA {name}={value}").fetchall()
                connection.execute("BEGIN IMMEDIATE")
                for statement in filter(str.strip, schema.split(";")):
                    connection.execute(statement)
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
        if made:
            sync_folder(path.parent)
        return cls(connection, page_limit=page_limit)

    def run(self, statement: str, values: Values = ()) -> int:
        """Executes one statement; returns how many rows it changed."""
        with translated(statement):
            return self._connection.execute(statement, values).rowcount

    def run_many(self, statement: str, values: Iterable[Values]) -> None:
        """Executes one statement for every element."""
        with translated(statement):
            self._connection.executemany(statement, values)

    def rows(self, statement: str, values: Values = ()) -> list[Tuple]:
        """All rows of a query; the caller bounds it with LIMIT or a range."""
        with translated(statement):
            return self._connection.execute(statement, values).fetchall()

    def scan(self, statement: str, values: Values = ()) -> Iterator[Tuple]:
        """The rows of a query one by one; the caller stops when it has enough."""
        with translated(statement):
            yield from self._connection.execute(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """The statements inside are stored together, on the disk, or not at all."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self.run("ROLLBACK")
            raise

    def pages_used(self) -> int:
        """Pages that hold something, in the current state of the transaction."""
        return int(self.rows("PRAGMA page_count")[0][0] - self.rows("PRAGMA freelist_count")[0][0])

    def settle(self) -> None:
        """Moves all of the write-ahead log into the file itself, durably; raises StoreError."""
        if self.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]:
            raise StoreError("the write-ahead log could not be moved into the file")

    def close(self) -> None:
        """Closes the file; raises StoreError when the last write failed."""
        with translated("close"):
            self._connection.close()


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turns what SQLite and the file system raise into StoreError, StoreFull or StoreCorrupt."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        text = f"{name} ({error}) at: {doing[:120]}"
        if code in _FULL:
            raise StoreFull(text) from error
        if code in _CORRUPT:
            raise StoreCorrupt(text) from error
        raise StoreError(text) from error
    except OSError as error:
        raise StoreError(f"{error} at: {doing[:120]}") from error


def set_aside(path: Path, *, suffix: str) -> Path:
    """Renames a file and its log so that nothing is lost and a new one can begin; returns the new path."""
    target = path.with_name(f"{path.name}.corrupt-{suffix}")
    with translated(f"cannot set {path} aside"):
        for tail in ("", "-wal", "-shm"):
            source = path.with_name(path.name + tail)
            if source.exists():
                source.rename(target.with_name(target.name + tail))
    sync_folder(path.parent)
    return target


def put_in_place(path: Path, target: Path) -> None:
    """Renames a finished, closed file; raises StoreError."""
    with translated(f"cannot rename {path}"):
        path.replace(target)
    sync_folder(target.parent)


def discard(path: Path) -> None:
    """Deletes a file and its log."""
    with translated(f"cannot delete {path}"):
        for tail in ("", "-wal", "-shm"):
            path.with_name(path.name + tail).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable; raises StoreError."""
    with translated(f"cannot sync {folder}"):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _tolerant(data: bytes) -> str:
    # A flipped bit in a text must reach the checksum, not end the read of its neighbours.
    return data.decode("utf-8", "replace")
