"""`state.db`: what outlives a lost spool. Tiny, and a kill of the process loses nothing of it.

Marks are not worth an fsync: after a power cut an older mark makes the device send again what the hub
knows already. `handed` is written before a row leaves the device; a number beyond it was never seen
by anybody and may be given again after the spool lost its tail.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from contract.status import Lane
from edge_agent.outbox.database import Database, Durability, StoreCorrupt, set_aside
from edge_agent.outbox.schema import STATE_SCHEMA

STATE_FILE: Final = "state.db"
_QUOTA_BYTES: Final = 4 * 1024 * 1024


class StateFile:
    """The open state file; only the thread that opened it may use it."""

    def __init__(self, db: Database) -> None:
        self._db = db

    @classmethod
    def open(cls, folder: Path, *, suffix: str) -> StateFile:
        """Opens or makes the file; one that contradicts itself is set aside with `suffix`."""
        path = folder / STATE_FILE
        try:
            return cls._open(path)
        except StoreCorrupt:
            set_aside(path, suffix=suffix)
            return cls._open(path)

    @classmethod
    def _open(cls, path: Path) -> StateFile:
        db = Database.open(
            path, schema=STATE_SCHEMA, quota_bytes=_QUOTA_BYTES, durability=Durability.KILL
        )
        db.run(
            "INSERT INTO identity VALUES ('starts', '1') ON CONFLICT (key)"
            " DO UPDATE SET value = CAST(value AS INTEGER) + 1"
        )
        return cls(db)

    def starts(self) -> int:
        """How often the outbox was opened in this folder."""
        return self._number("starts")

    def _number(self, key: str) -> int:
        found = self._db.rows("SELECT value FROM identity WHERE key = ?", (key,))
        return int(found[0][0]) if found and found[0][0].isdecimal() else 0

    def marks(self) -> tuple[str, dict[Lane, tuple[int, int]]]:
        """The epoch that was last marked ("" when none was), and handed and sent per lane."""
        rows = self._db.rows("SELECT epoch, lane, handed, sent FROM marks")
        epoch = rows[0][0] if rows else ""
        known = {lane.value for lane in Lane}
        return epoch, {
            Lane(lane): (handed, sent)
            for row_epoch, lane, handed, sent in rows
            if row_epoch == epoch and lane in known
        }

    def mark(self, lane: Lane, *, epoch: str, handed: int, sent: int) -> None:
        """Notes how far a lane was handed out and acknowledged."""
        self._db.run("INSERT OR REPLACE INTO marks VALUES (?,?,?,?)", (lane, epoch, handed, sent))

    def revised_to(self) -> int:
        """The highest revision of the hub that was given out; 0 before the first."""
        rows = self._db.rows("SELECT value FROM identity WHERE key = 'revised_to'")
        return int(rows[0][0]) if rows and rows[0][0].isdecimal() else 0

    def mark_revised(self, seq: int) -> None:
        """Notes how far the hub's revisions were given out."""
        self._db.run("INSERT OR REPLACE INTO identity VALUES ('revised_to', ?)", (str(seq),))

    def close(self) -> None:
        """Closes the file."""
        self._db.close()
