"""One SQLite file that this process alone holds; the only module of the device that knows SQLite.

Every error of SQLite becomes one of three, sorted by what the caller does about it:

    StoreError     the disk failed (I/O, permissions, a lock): close, open again, read again, go on
    StoreFull      there is no room: shed, then try again
    └── DiskFull   and it is the disk that has none: `confine` takes what the file has for the quota
    StoreCorrupt   what the file says is impossible, or not of this schema: set it aside, begin a new one

Durability: WAL with `synchronous=FULL`: when a transaction has ended it is on the disk. With
Durability.KILL it survives a kill of the process, and perhaps not a power cut.

The file never shrinks (`auto_vacuum` is off): freed pages are used again, the quota bounds the file,
and moving pages to give back space would write every row of a queue twice. `room.py` says how a full
disk is prepared for.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final

from edge_agent.errors import StoreError, StoreFull
from edge_agent.outbox.room import PAGE_BYTES, SPARE_SUFFIX, Plan, Room, plan

_CORRUPT: Final = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
}
_FOREIGN: Final = ("no such table", "no such column", "has no column", "columns but")
"""How SQLite says that a file has other tables than it should."""
_SOFT_LIMIT: Final = 0.90
"""The share of the quota at which shedding begins; the rest is for what shedding itself writes."""
_HEADROOM_PAGES: Final = 256
"""The same on a full disk, at most: there every page counts."""
_TAILS: Final = ("", "-wal", "-shm", SPARE_SUFFIX)

Values = Sequence[Any]
Tuple = tuple[Any, ...]


class StoreCorrupt(StoreError):
    """The file contradicts itself: it is set aside, and a new one is begun."""


class DiskFull(StoreFull):
    """The disk has no block left, or the file may not become larger."""


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

    def __init__(self, connection: sqlite3.Connection, *, pages: Plan, room: Room | None) -> None:
        self._connection = connection
        self._plan = pages
        self._room = room
        self.page_limit = pages.limit
        """Most pages that the file may have at present."""
        self.confined = False
        """Whether that is less than the quota, since the disk has no more."""

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        schema: str,
        quota_bytes: int,
        durability: Durability,
        prepare: bool = True,
        pages: Plan | None = None,
    ) -> Database:
        """Opens or makes the file, cuts a torn tail, and takes the lock; raises StoreError.

        Sets blocks aside for a full disk unless told not to `prepare`, as the quota or `pages` say.
        """
        made = not path.exists()
        room = Room(path, quota_bytes=quota_bytes, pages=pages) if prepare else None
        pages = room.plan if room is not None else plan(quota_bytes, available_bytes=quota_bytes)
        with translated(f"cannot open {path}", room=room):
            connection = sqlite3.connect(path, timeout=1.0, isolation_level=None)
            connection.text_factory = _tolerant
            try:
                for name, value in (
                    ("locking_mode", "EXCLUSIVE"),
                    ("page_size", PAGE_BYTES),
                    ("journal_mode", "WAL"),
                    ("synchronous", durability.value),
                    ("wal_autocheckpoint", pages.checkpoint),
                    # As long as what is set aside: never cut shorter, so its blocks stay ours.
                    ("journal_size_limit", pages.log_bytes),
                    ("max_page_count", pages.limit),
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
        db = cls(connection, pages=pages, room=room)
        db._prepare()
        return db

    def _prepare(self) -> None:
        if self._room is None:
            return
        with translated("set blocks aside"):
            claimed = self._room.claim()
        granted = self._room.granted_pages() if claimed else 0
        if granted < self._plan.limit:
            self._limit_to(max(granted, self._page_count()))

    def confine(self) -> None:
        """Takes the size that the file has for the quota; raises DiskFull where not even that helps.

        What was set aside is used up for it: the log is moved into the file.
        """
        if self._room is not None:
            with translated("release"):
                self._room.release()
        self.run(f"PRAGMA wal_autocheckpoint={max(self._plan.checkpoint // 4, 16)}")
        self.rows("PRAGMA wal_checkpoint(PASSIVE)")
        self._limit_to(self._page_count())

    def relax(self) -> bool:
        """Takes more of the disk if it has more again, up to the quota; whether it did."""
        if self._room is None or not self.confined:
            return False
        granted = min(self._room.granted_pages(), self._plan.limit)
        if granted <= max(self.page_limit, self._page_count()):
            return False
        with translated("set blocks aside"):
            if not self._room.claim():
                return False
        self.run(f"PRAGMA wal_autocheckpoint={self._plan.checkpoint}")
        self._limit_to(granted)
        return True

    def claim_file(self) -> None:
        """Gives the file the blocks that it has in its log only; one that never grows then needs no more.

        Raises DiskFull where there are none: the log alone must do.
        """
        self.rows("PRAGMA wal_checkpoint(PASSIVE)")

    def falls_behind(self) -> bool:
        """Whether the log could not be moved into the file when it should have been."""
        if self._room is None:
            return False
        return self._room.short_of(self._page_count()) > self._plan.checkpoint * 5 // 4

    def _limit_to(self, pages: int) -> None:
        self.page_limit = min(pages, self._plan.limit)
        self.confined = self.page_limit < self._plan.limit
        self.rows(f"PRAGMA max_page_count={self.page_limit}")

    def _page_count(self) -> int:
        return int(self.rows("PRAGMA page_count")[0][0])

    @property
    def quota_pages(self) -> int:
        """Most pages that the file may have when the disk has them."""
        return self._plan.limit

    def soft_limit_bytes(self) -> int:
        """Shedding begins above this."""
        spare = self.page_limit * (1 - _SOFT_LIMIT)
        if self.confined:
            spare = min(spare, _HEADROOM_PAGES)
        return int((self.page_limit - spare) * PAGE_BYTES)

    def run(self, statement: str, values: Values = ()) -> int:
        """Executes one statement; returns how many rows it changed."""
        with translated(statement, room=self._room):
            return self._connection.execute(statement, values).rowcount

    def run_many(self, statement: str, values: Iterable[Values]) -> None:
        """Executes one statement for every element."""
        with translated(statement, room=self._room):
            self._connection.executemany(statement, values)

    def rows(self, statement: str, values: Values = ()) -> list[Tuple]:
        """All rows of a query; the caller bounds it with LIMIT or a range."""
        with translated(statement, room=self._room):
            return self._connection.execute(statement, values).fetchall()

    def scan(self, statement: str, values: Values = ()) -> Iterator[Tuple]:
        """The rows of a query one by one; the caller stops when it has enough."""
        with translated(statement, room=self._room):
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
        """Moves all of the write-ahead log into the file itself, durably; raises StoreError.

        The log is cut to nothing: after an fsync that failed none of its frames is to be believed.
        """
        if self.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]:
            raise StoreError("the write-ahead log could not be moved into the file")
        self._prepare()

    def close(self) -> None:
        """Closes the file; raises StoreError when the last write failed."""
        with translated("close"):
            self._connection.close()


@contextmanager
def translated(doing: str, *, room: Room | None = None) -> Iterator[None]:
    """Turns what SQLite and the file system raise into an error of the device's own tree."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        text = f"{name} ({error}) at: {doing[:120]}"
        # A file that may not become larger is an I/O error to SQLite.
        if code == sqlite3.SQLITE_FULL or (
            name == "SQLITE_IOERR_WRITE" and room is not None and room.full()
        ):
            raise DiskFull(text) from error
        if code in _CORRUPT or any(words in str(error) for words in _FOREIGN):
            raise StoreCorrupt(text) from error
        raise StoreError(text) from error
    except OSError as error:
        raise StoreError(f"{error} at: {doing[:120]}") from error


def set_aside(path: Path, *, suffix: str) -> Path:
    """Renames a file and its log so that nothing is lost and a new one can begin; returns the new path.

    A folder or a file that may not be read is renamed the same.
    """
    target = path.with_name(f"{path.name}.corrupt-{suffix}")
    with translated(f"cannot set {path} aside"):
        for tail in ("", "-wal", "-shm"):
            source = path.with_name(path.name + tail)
            if source.exists() or source.is_symlink():
                source.rename(target.with_name(target.name + tail))
        path.with_name(path.name + SPARE_SUFFIX).unlink(missing_ok=True)
    sync_folder(path.parent)
    return target


def put_in_place(path: Path, target: Path) -> None:
    """Renames a finished, closed file; raises StoreError."""
    with translated(f"cannot rename {path}"):
        path.replace(target)
        path.with_name(path.name + SPARE_SUFFIX).unlink(missing_ok=True)
    sync_folder(target.parent)


def check_readable(path: Path) -> None:
    """Raises StoreCorrupt where a file stands in the way that can never be opened as it is."""
    if path.is_dir():
        raise StoreCorrupt(f"{path} is a folder, not a file")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        with suppress(OSError):
            path.chmod(0o600)
        if not os.access(path, os.R_OK):
            raise StoreCorrupt(f"{path} may not be read by this user")


def discard(path: Path) -> None:
    """Deletes a file and its log."""
    with translated(f"cannot delete {path}"):
        for tail in _TAILS:
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
