"""The tables. One schema for SQLite and PostgreSQL; every primary key makes an insert idempotent.

Migrations: this is the first schema. Tables are made by `create_all` and stamped with `SCHEMA_VERSION`; a
database with another stamp is refused with a clear error, never guessed at. The first change of a table
brings the migration tool with it, and finds the stamp to start from. A tool with one empty migration
would be one more thing that can fail at start, for nothing yet.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION: Final = 1

metadata = MetaData()

hub_meta = Table(
    "hub_meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

devices = Table(
    "devices",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("first_seen_s", Float, nullable=False),
    Column("last_seen_s", Float, nullable=False),
    Column("state_seen_s", Float),
    Column("state", Text),
    Column("revision_seq", BigInteger, nullable=False, default=0),
)

watermarks = Table(
    "watermarks",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("epoch", String(64), primary_key=True),
    Column("lane", String(8), primary_key=True),
    Column("applied", BigInteger, nullable=False),
    Column("marks", Text, nullable=False),
    Column("updated_s", Float, nullable=False),
)


def _row_key() -> list[Column[str] | Column[int]]:
    return [
        Column("device", String(64), primary_key=True),
        Column("epoch", String(64), primary_key=True),
        Column("lane", String(8), primary_key=True),
        Column("seq", BigInteger, primary_key=True, autoincrement=False),
    ]


telemetry = Table(
    "telemetry",
    metadata,
    *_row_key(),
    Column("first", Integer, primary_key=True, autoincrement=False),
    Column("stream", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("t_min", Float, nullable=False),
    Column("t_max", Float, nullable=False),
    Column("channels", Text, nullable=False),
    Column("units", Text, nullable=False),
    Column("times", LargeBinary, nullable=False),
    Column("arrivals", LargeBinary, nullable=False),
    Column("values", LargeBinary, nullable=False),
    Column("flags", LargeBinary, nullable=False),
    Column("boot", String(64), nullable=False),
    Column("mono_s", Float, nullable=False),
    Column("wall_s", Float, nullable=False),
    Column("clock_trusted", Boolean, nullable=False),
    Index("telemetry_by_time", "device", "stream", "t_max"),
)

events = Table(
    "events",
    metadata,
    *_row_key(),
    Column("kind", String(16), nullable=False),
    Column("stream", Text, nullable=False),
    Column("time_s", Float, nullable=False),
    Column("id", String(128), nullable=False),
    Column("payload", Text, nullable=False),
    Column("received_s", Float, nullable=False),
    Index("events_by_time", "device", "stream", "time_s"),
    Index("events_by_id", "device", "id"),
)

gaps = Table(
    "gaps",
    metadata,
    *_row_key(),
    Column("gap_lane", String(8), nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("stride", BigInteger, nullable=False),
    Column("readings", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
)

rollups = Table(
    "rollups",
    metadata,
    *_row_key(),
    Column("stream", Text, nullable=False),
    Column("from_s", Float, nullable=False),
    Column("to_s", Float, nullable=False),
    Column("payload", Text, nullable=False),
    Index("rollups_by_time", "device", "stream", "to_s"),
)

escalations = Table(
    "escalations",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("verdict", String(128), primary_key=True),
    Column("epoch", String(64), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("model", String(64), nullable=False),
    Column("received_s", Float, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Index("escalations_by_state", "state", "received_s"),
)

revisions = Table(
    "revisions",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("verdict", String(128), primary_key=True),
    Column("source", String(8), primary_key=True),
    Column("seq", BigInteger),
    Column("stream", Text, nullable=False),
    Column("label", String(64), nullable=False),
    Column("score", Float, nullable=False),
    Column("confidence", Float, nullable=False),
    Column("model", String(64), nullable=False),
    Column("release", BigInteger, nullable=False),
    Column("time_s", Float, nullable=False),
    Column("made_s", Float, nullable=False),
    UniqueConstraint("device", "seq", name="revisions_by_seq"),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("device", String(64), nullable=False),
    Column("subject", Text, nullable=False),
    Column("epoch", String(64), nullable=False),
    Column("lane", String(8), nullable=False),
    Column("first", BigInteger),
    Column("last", BigInteger),
    Column("reason", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("body", LargeBinary),
    Column("received_s", Float, nullable=False),
    Index("dead_letters_by_device", "device", "received_s"),
)
