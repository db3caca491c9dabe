"""Reads the ledgers of the oracle from the hub's database and from what sensors wrote down."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bench.faults.ledger import (
    Balance,
    DeclaredGap,
    Reading,
    StoredEvent,
    StoredGroup,
    balance,
    count_holes,
)
from bench.stack import Hub
from contract.status import Lane

_GROUPS = "SELECT epoch, seq, first, stream, times FROM telemetry"
_GAPS = """
SELECT CASE gap_epoch WHEN '' THEN epoch ELSE gap_epoch END, first, last, stride, readings, reason, gap_lane
FROM gaps
"""
_EVENTS = "SELECT epoch, seq, stream, time_s FROM events WHERE kind IN ('alarm', 'verdict')"
_EVENT_ROWS = "SELECT epoch, seq FROM events UNION SELECT epoch, seq FROM gaps"
_ROLLUPS = "SELECT epoch, seq FROM rollups WHERE lane = 'tel'"


def read_groups(hub: Hub) -> list[StoredGroup]:
    """The readings in the hub's database; call off the loop."""
    return [
        StoredGroup(epoch, seq, first, stream, tuple(np.frombuffer(times, "<f8").tolist()))
        for epoch, seq, first, stream, times in hub.rows(_GROUPS)
    ]


def read_gaps(hub: Hub, *, lane: Lane = Lane.TEL) -> list[DeclaredGap]:
    """What devices declared as given up of a lane; call off the loop."""
    return [DeclaredGap(*row[:-1]) for row in hub.rows(_GAPS) if row[-1] == lane]


def read_ledger(path: Path) -> list[Reading]:
    """What the broker acknowledged to one set of sensors; call off the loop."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(entry["topic"], entry["t"]) for entry in map(json.loads, lines)]


def count_acknowledged(ledgers: list[Path]) -> int:
    """How many readings these sensors have written down; call off the loop."""
    return sum(path.read_bytes().count(b"\n") for path in ledgers if path.exists())


def judge(hub: Hub, ledgers: list[Path], *, streams: str = "") -> Balance:
    """The balance of everything that these sensors sent and this hub stored; call off the loop.

    `streams` is how the names of their streams begin: others are counted as rows and no more.
    """
    acknowledged = [reading for ledger in ledgers for reading in read_ledger(ledger)]
    groups = read_groups(hub)
    events = [StoredEvent(*row) for row in hub.rows(_EVENTS)]
    return balance(
        acknowledged,
        [group for group in groups if group.stream.startswith(streams)],
        read_gaps(hub),
        events=[event for event in events if event.stream.startswith(streams)],
        rows=[
            *((epoch, seq) for epoch, seq in hub.rows(_ROLLUPS)),
            *((group.epoch, group.seq) for group in groups),
        ],
        holes_elsewhere=count_holes(
            [(epoch, seq) for epoch, seq in hub.rows(_EVENT_ROWS)], read_gaps(hub, lane=Lane.EVT)
        ),
    )
