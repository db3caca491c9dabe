"""Reads what the hub has stored, from its database file, without the hub."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from deploy.demo.ledger import Key, reading_key

_TIMEOUT_S = 5.0


def count_stored(database: Path) -> int:
    """How many readings the hub has; 0 before it has made its tables."""
    if not database.exists():
        return 0
    with closing(_open(database)) as connection:
        try:
            row = connection.execute('SELECT total("count") FROM telemetry').fetchone()
        except sqlite3.OperationalError:  # no such table yet
            return 0
    return int(row[0])


def stored_readings(database: Path) -> Iterator[Key]:
    """The key of every stored reading, as often as it is stored."""
    with closing(_open(database)) as connection:
        for device, stream, times in connection.execute(
            "SELECT device, stream, times FROM telemetry"
        ):
            for (time_s,) in struct.iter_unpack("<d", times):
                yield reading_key(device, stream, time_s)


def declared_gaps(database: Path) -> dict[str, int]:
    """Readings that each device has declared as given up; only devices that declared some."""
    with closing(_open(database)) as connection:
        rows = connection.execute(
            "SELECT device, total(readings) FROM gaps WHERE gap_lane = 'tel' GROUP BY device"
        ).fetchall()
    return {device: int(readings) for device, readings in rows}


def _open(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=_TIMEOUT_S)
