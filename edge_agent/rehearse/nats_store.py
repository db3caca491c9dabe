"""What the stand-in server keeps: streams, their messages, the ids it has seen; on the disk before it says so.

One file, written by the thread that opened it. `commit` stores all that was added since the last one in one
transaction with an fsync; only then may anything of it be acknowledged.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edge_agent.outbox.database import Database, Durability
from edge_agent.rehearse.nats_frames import matches

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS streams (name TEXT PRIMARY KEY, config TEXT NOT NULL, last INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS messages (stream TEXT NOT NULL, seq INTEGER NOT NULL, subject TEXT NOT NULL,
  headers BLOB NOT NULL, body BLOB NOT NULL, PRIMARY KEY (stream, seq));
CREATE TABLE IF NOT EXISTS ids (stream TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL,
  stored REAL NOT NULL, PRIMARY KEY (stream, id));
CREATE TABLE IF NOT EXISTS consumers (stream TEXT NOT NULL, name TEXT NOT NULL, config TEXT NOT NULL,
  PRIMARY KEY (stream, name));
"""
_QUOTA_BYTES: Final = 2 * 1024**3
_DEFAULT_MAX_BYTES: Final = 256 * 1024 * 1024
_FRAME_BYTES: Final = 64
_MAX_IDS: Final = 500_000


@dataclass(frozen=True, slots=True)
class Kept:
    """One message of a stream."""

    seq: int
    subject: str
    headers: bytes
    body: bytes

    @property
    def size(self) -> int:
        """About what it takes."""
        return len(self.headers) + len(self.body) + len(self.subject) + _FRAME_BYTES


class StreamFull(Exception):
    """The stream has reached its size: nothing is stored until messages were taken from it."""


class Stream:
    """One work queue: a message leaves it when its consumer has acknowledged it."""

    def __init__(self, name: str, config: dict[str, Any], *, last: int = 0) -> None:
        self.name = name
        self.config = config
        self.last = last
        self.messages: dict[int, Kept] = {}
        self.ids: dict[str, int] = {}
        self.bytes = 0

    @property
    def subjects(self) -> list[str]:
        """The patterns of what it captures."""
        return list(self.config.get("subjects", [self.name]))

    @property
    def max_bytes(self) -> int:
        """Its size."""
        limit = int(self.config.get("max_bytes", -1))
        return limit if limit > 0 else _DEFAULT_MAX_BYTES


class Store:
    """The streams; reads come from memory, changes are on the disk after `commit`."""

    def __init__(self, path: Path) -> None:
        """Opens or makes the file; raises StoreError."""
        self.streams: dict[str, Stream] = {}
        self._db = Database.open(
            path, schema=_SCHEMA, quota_bytes=_QUOTA_BYTES, durability=Durability.POWER_CUT
        )
        self._added: list[tuple[str, int, str, bytes, bytes]] = []
        self._ids: list[tuple[str, str, int, float]] = []
        self._removed: list[tuple[str, int]] = []
        for name, config, last in self._db.rows("SELECT name, config, last FROM streams"):
            self.streams[name] = Stream(name, json.loads(config), last=last)
        for name, seq, subject, headers, body in self._db.scan(
            "SELECT stream, seq, subject, headers, body FROM messages ORDER BY stream, seq"
        ):
            stream, kept = self.streams[name], Kept(seq, subject, headers, body)
            stream.messages[seq] = kept
            stream.bytes += kept.size
        self._db.run("DELETE FROM ids WHERE stored < ?", (time.time() - 600,))
        for name, one, seq in self._db.scan("SELECT stream, id, seq FROM ids"):
            self.streams[name].ids[one] = seq

    def make(self, name: str, config: dict[str, Any]) -> Stream:
        """Makes a stream, or gives one that is there its new configuration; on the disk at once."""
        stream = self.streams.get(name)
        if stream is None:
            stream = self.streams[name] = Stream(name, config)
        stream.config = config
        self._db.run(
            "INSERT INTO streams VALUES (?,?,?) ON CONFLICT (name) DO UPDATE SET config = excluded.config",
            (name, json.dumps(config), stream.last),
        )
        return stream

    def keep_consumer(self, stream: str, name: str, config: dict[str, Any]) -> None:
        """Notes a durable consumer; on the disk at once."""
        self._db.run(
            "INSERT OR REPLACE INTO consumers VALUES (?,?,?)", (stream, name, json.dumps(config))
        )

    def consumers(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Stream, name and configuration of each."""
        found = self._db.rows("SELECT stream, name, config FROM consumers")
        return [(stream, name, json.loads(config)) for stream, name, config in found]

    def capturing(self, subject: str) -> Stream | None:
        """The stream that a subject belongs to."""
        for stream in self.streams.values():
            if any(matches(pattern, subject) for pattern in stream.subjects):
                return stream
        return None

    def add(
        self, stream: Stream, *, subject: str, headers: bytes, body: bytes, id: str
    ) -> tuple[int, bool]:
        """The number that a message has in its stream, and whether it had it before.

        Raises StreamFull.
        """
        if id and id in stream.ids:
            return stream.ids[id], True
        kept = Kept(stream.last + 1, subject, headers, body)
        if stream.bytes + kept.size > stream.max_bytes:
            raise StreamFull(stream.name)
        stream.last = kept.seq
        stream.messages[kept.seq] = kept
        stream.bytes += kept.size
        self._added.append((stream.name, kept.seq, subject, headers, body))
        if id:
            if len(stream.ids) >= _MAX_IDS:
                stream.ids.pop(next(iter(stream.ids)))
            stream.ids[id] = kept.seq
            self._ids.append((stream.name, id, kept.seq, time.time()))
        return kept.seq, False

    def remove(self, stream: Stream, seq: int) -> None:
        """Takes a message out; gone from the disk with the next commit."""
        kept = stream.messages.pop(seq, None)
        if kept is not None:
            stream.bytes -= kept.size
            self._removed.append((stream.name, seq))

    def commit(self) -> None:
        """Stores what was added and removed since the last time; raises StoreError."""
        if not self._added and not self._removed:
            return
        with self._db.transaction():
            self._db.run_many("INSERT INTO messages VALUES (?,?,?,?,?)", self._added)
            self._db.run_many("INSERT OR REPLACE INTO ids VALUES (?,?,?,?)", self._ids)
            self._db.run_many("DELETE FROM messages WHERE stream = ? AND seq = ?", self._removed)
            for name in {name for name, *_ in self._added}:
                self._db.run(
                    "UPDATE streams SET last = ? WHERE name = ?", (self.streams[name].last, name)
                )
        self._added.clear()
        self._ids.clear()
        self._removed.clear()

    def close(self) -> None:
        """Closes the file."""
        self._db.close()
