"""The tables. One schema for SQLite and PostgreSQL; every primary key makes an insert idempotent.

Tables of a new database are made by `create_all` and stamped with `SCHEMA_VERSION`. An older one is brought
up to it by the steps of `migrations.py`; one with any other stamp is refused, never guessed at. A change here
needs a step there.
"""

from __future__ import annotations

from typing import Any, Final

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
    text,
    true,
)

SCHEMA_VERSION: Final = 2

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


def clock_columns(*, needed: bool) -> list[Column[Any]]:
    """The clocks of the device when it made a row; `shift_s` is by how much the hub corrected its times.

    `shift_s` is NULL where nothing was corrected, and 0 where an untrusted clock was found to be right.
    """
    return [
        Column("boot", String(64), nullable=not needed),
        Column("mono_s", Float, nullable=not needed),
        Column("wall_s", Float, nullable=not needed),
        Column("clock_trusted", Boolean, nullable=not needed),
        Column("shift_s", Float),
    ]


def clock_indexes(table: str) -> list[Index]:
    """What finds the rows of a boot whose times are not sure, or not sure yet; others cost nothing."""
    doubt = {"sqlite": "clock_trusted = 0", "postgresql": "NOT clock_trusted"}
    due = {name: f"{where} AND shift_s IS NULL" for name, where in doubt.items()}
    return [
        Index(
            f"{table}_in_doubt",
            *("device", "boot", "mono_s"),
            sqlite_where=text(doubt["sqlite"]),
            postgresql_where=text(doubt["postgresql"]),
        ),
        Index(
            f"{table}_to_repair",
            *("device", "boot"),
            sqlite_where=text(due["sqlite"]),
            postgresql_where=text(due["postgresql"]),
        ),
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
    *clock_columns(needed=True),
    Column("own", LargeBinary),
    Index("telemetry_by_time", "device", "stream", "t_max"),
    *clock_indexes("telemetry"),
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
    *clock_columns(needed=False),
    Index("events_by_time", "device", "stream", "time_s"),
    Index("events_by_id", "device", "id"),
    *clock_indexes("events"),
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
    Column("gap_epoch", String(64), nullable=False, server_default=""),
    Column("declared", BigInteger, nullable=False, server_default="0"),
    Column("held_rows", BigInteger, nullable=False, server_default="0"),
    Column("held_readings", BigInteger, nullable=False, server_default="0"),
    Column("exact", Boolean, nullable=False, server_default=true()),
    Index("gaps_by_lane", "device", "gap_epoch", "gap_lane", "first"),
)
"""`readings` is what is lost as far as the hub knows: `declared` by the device, less `held_readings` of rows
that are covered by the gap and are here all the same. `gap_epoch` and `gap_lane` are where those rows are."""

rollups = Table(
    "rollups",
    metadata,
    *_row_key(),
    Column("stream", Text, nullable=False),
    Column("from_s", Float, nullable=False),
    Column("to_s", Float, nullable=False),
    Column("payload", Text, nullable=False),
    *clock_columns(needed=False),
    Index("rollups_by_time", "device", "stream", "to_s"),
    *clock_indexes("rollups"),
)

clock_marks = Table(
    "clock_marks",
    metadata,
    Column("device", String(64), primary_key=True),
    Column("boot", String(64), primary_key=True),
    Column("from_mono_s", Float, primary_key=True),
    Column("to_mono_s", Float, nullable=False),
    Column("offset_s", Float, nullable=False),
)
"""Wall less monotonic time, as trusted stamps of a boot told it from one moment to another."""

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
