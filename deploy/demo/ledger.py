"""Compares what sensors sent, what the broker acknowledged and what the hub has stored (pure).

A reading is known by its device, its stream and its time; the demo's sensors never send two readings
of one stream with the same time, so a key that is stored twice is a duplicate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Key = tuple[str, str, int]
"""Device, stream, time in microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """All counts are readings.

    `lost` = acknowledged − stored − declared gaps of each device, never below zero, summed over all:
    what one device has declared excuses no loss of another.
    """

    sent: int
    acknowledged: int
    stored: int
    declared_gaps: int
    lost: int
    duplicate: int
    phantom: int
    """Stored, but no sensor has it in its ledger."""


def reading_key(device: str, stream: str, time_s: float) -> Key:
    """The key of one reading."""
    return device, stream, round(time_s * 1e6)


def compare(
    *,
    sent: int,
    acknowledged: Iterable[Key],
    stored: Iterable[Key],
    declared_gaps: Mapping[str, int],
) -> Ledger:
    """The three ledgers side by side; `declared_gaps` are readings by device."""
    promised = set(acknowledged)
    counts = Counter(stored)
    missing = Counter(device for device, _, _ in promised - counts.keys())
    unacknowledged = max(0, sent - len(promised))
    unknown = len(counts.keys() - promised)
    return Ledger(
        sent=sent,
        acknowledged=len(promised),
        stored=len(counts),
        declared_gaps=sum(declared_gaps.values()),
        lost=sum(
            max(0, readings - declared_gaps.get(device, 0)) for device, readings in missing.items()
        ),
        duplicate=counts.total() - len(counts),
        # What was sent and not acknowledged may have arrived all the same.
        phantom=max(0, unknown - unacknowledged),
    )
