"""What the spool remembers beside its rows: packets, checkpoints, pending verdicts. Each has a checksum.

A damaged entry is left out and counted: a packet then may be stored twice, a stream warms up again, a
pending verdict is not repeated. None of it can make a wrong reading.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable
from typing import Final

import numpy as np

from contract.status import Lane, RowClass
from edge_agent.outbox.database import Database
from edge_agent.outbox.records import CODE_OF, COLUMNS, unseal
from edge_agent.types import Checkpoint, Packets, StoredRow

KEPT_PACKETS: Final = 65_536
"""Packet ids kept per session: as many as MQTT has."""
LEAST_PACKETS: Final = 2_048
"""Packet ids kept per session however small the quota is."""
_QUOTA_SHARE: Final = 16
_ID_BYTES: Final = 10
_ENTRY_BYTES: Final = 80
"""What an entry costs beside its ids."""
_MAX_RAW_ROWS: Final = 200_000


def kept_packets(quota_bytes: int) -> int:
    """How many ids a session may have of a quota, if they come many at a time."""
    return min(max(quota_bytes // _QUOTA_SHARE // _ID_BYTES, LEAST_PACKETS), KEPT_PACKETS)


class PacketLog:
    """Which packet entries the file holds, so that the oldest can be dropped without a query.

    All sessions together use a sixteenth of the quota, yet each keeps at least the newest 2,048 ids.
    """

    def __init__(self, *, quota_bytes: int = 1 << 40) -> None:
        self._next_id = 1
        self._budget_bytes = quota_bytes // _QUOTA_SHARE
        self._entries: dict[str, deque[tuple[int, int]]] = {}
        self._counts: dict[str, int] = {}
        self._bytes = 0

    def note(self, entry: int, session: str, count: int) -> None:
        """Counts an entry that is in the file."""
        self._entries.setdefault(session, deque()).append((entry, count))
        self._counts[session] = self._counts.get(session, 0) + count
        self._bytes += _cost(count)
        self._next_id = max(self._next_id, entry + 1)

    def write(self, db: Database, packets: Iterable[Packets]) -> list[tuple[int, str, int]]:
        """Writes entries; returns what to `note` once the transaction is on the disk."""
        rows = []
        noted = []
        for entry, one in enumerate(packets, start=self._next_id):
            mids = one.mids.astype("<u2").tobytes()
            hashes = one.hashes.astype("<u8").tobytes()
            count = len(one.mids)
            rows.append(
                (entry, one.session, count, packet_sum(one.session, mids, hashes), mids, hashes)
            )
            noted.append((entry, one.session, count))
        if rows:
            db.run_many("INSERT INTO packets VALUES (?,?,?,?,?,?)", rows)
        return noted

    def trim(self, db: Database) -> list[tuple[str, int]]:
        """Deletes the oldest entries beyond the bounds; returns what to `forget`."""
        gone: list[tuple[str, int]] = []
        over_bytes = self._bytes - self._budget_bytes
        for session, entries in self._entries.items():
            kept = self._counts[session]
            for entry, count in entries:
                tight = over_bytes > 0 and kept - count >= LEAST_PACKETS
                if not tight and kept - count < KEPT_PACKETS:
                    break
                kept -= count
                over_bytes -= _cost(count)
                gone.append((session, entry))
        if gone:
            db.run_many("DELETE FROM packets WHERE id = ?", ((entry,) for _, entry in gone))
        return gone

    def forget(self, gone: Iterable[tuple[str, int]]) -> None:
        """Follows a `trim` that is on the disk."""
        for session, _ in gone:
            _, count = self._entries[session].popleft()
            self._counts[session] -= count
            self._bytes -= _cost(count)


def joined(packets: Iterable[Packets]) -> list[Packets]:
    """One entry a session in place of many, in the same order; empty ones are left out."""
    sessions: dict[str, list[Packets]] = {}
    for one in packets:
        if len(one.mids):
            sessions.setdefault(one.session, []).append(one)
    return [
        Packets(
            session,
            np.concatenate([one.mids for one in each]),
            np.concatenate([one.hashes for one in each]),
        )
        for session, each in sessions.items()
    ]


def _cost(count: int) -> int:
    return _ID_BYTES * count + _ENTRY_BYTES


def load_packets(db: Database, *, quota_bytes: int = 1 << 40) -> tuple[list[Packets], PacketLog]:
    """The packets of the file, oldest first, and the log that goes on from there."""
    log = PacketLog(quota_bytes=quota_bytes)
    found: list[Packets] = []
    for entry, session, count, checksum, mids, hashes in db.scan(
        "SELECT id, session, count, sum, mids, hashes FROM packets ORDER BY id"
    ):
        sound = (
            isinstance(mids, bytes)
            and isinstance(hashes, bytes)
            and packet_sum(session, mids, hashes) == checksum
            and len(mids) == 2 * count
            and len(hashes) == 8 * count
        )
        log.note(entry, session, count if sound else 0)
        if sound:
            found.append(Packets(session, np.frombuffer(mids, "<u2"), np.frombuffer(hashes, "<u8")))
    return found, log


def write_checkpoints(db: Database, checkpoints: Iterable[Checkpoint], *, seq: int) -> int:
    """Stores checkpoints as of the `tel` number `seq`; returns their bytes."""
    rows = [
        (one.stream, seq, state_sum(one.stream, seq, one.body), one.body) for one in checkpoints
    ]
    if rows:
        db.run_many("INSERT OR REPLACE INTO stream_state VALUES (?,?,?,?)", rows)
    return sum(len(row[3]) + len(row[0]) for row in rows)


def load_checkpoints(db: Database) -> dict[str, tuple[int, bytes]]:
    """Every stream's checkpoint: the `tel` number it includes, and its body."""
    return {
        stream: (seq, body)
        for stream, seq, checksum, body in db.scan(
            "SELECT stream, seq, sum, body FROM stream_state"
        )
        if isinstance(body, bytes)
        and isinstance(seq, int)
        and state_sum(stream, seq, body) == checksum
    }


def write_pending(
    db: Database, pending: Iterable[tuple[str, bytes]], settled: Iterable[str]
) -> None:
    """Stores verdicts that wait for the hub, and drops those that were given."""
    rows = [(name, state_sum(name, 0, body), body) for name, body in pending]
    if rows:
        db.run_many("INSERT OR REPLACE INTO pending VALUES (?,?,?)", rows)
    db.run_many("DELETE FROM pending WHERE id = ?", ((name,) for name in settled))


def load_pending(db: Database) -> list[tuple[str, bytes]]:
    """The verdicts that waited for the hub."""
    return [
        (name, body)
        for name, checksum, body in db.scan("SELECT id, sum, body FROM pending ORDER BY id")
        if isinstance(body, bytes) and state_sum(name, 0, body) == checksum
    ]


def load_raw_rows(db: Database, *, after: int) -> list[StoredRow]:
    """The sound raw rows of `tel` after a number, in order; from these windows are rebuilt."""
    code = CODE_OF[RowClass.RAW]
    found = db.scan(
        f"SELECT {COLUMNS} FROM {Lane.TEL} WHERE seq > ? ORDER BY seq LIMIT {_MAX_RAW_ROWS}",
        (after,),
    )
    records = (unseal(row) for row in found if row[1] == code)
    return [record.stored() for record in records if record is not None]


def packet_sum(session: str, mids: bytes, hashes: bytes) -> int:
    """The checksum of a packet entry."""
    return zlib.crc32(hashes, zlib.crc32(mids, zlib.crc32(session.encode())))


def state_sum(name: str, seq: int, body: bytes) -> int:
    """The checksum of a named body as of a number."""
    return zlib.crc32(body, zlib.crc32(f"{name}\0{seq}".encode()))
