"""The oracle: what sensors were acknowledged, what the hub stored, and what the device declared. Pure.

A reading is (stream, time); one that was sent twice by its sensor would be one reading. Three ledgers:

* `acknowledged`: what the broker acknowledged to the sensors, in order of sending;
* `stored`: the rows of the hub's `telemetry`, one for each group of readings;
* `gaps`: the hub's gap records of the lane `tel`.

    lost       = acknowledged, neither stored nor declared
    duplicate  = stored more than once
    phantom    = stored, never sent
    order      = a reading that lies behind a later one of its stream, in order of the row numbers
    overstated = declared as given up and yet not missing: gaps must equal real gaps exactly
    holes      = row numbers below the highest one that are neither stored nor declared
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

Reading = tuple[str, float]


class StoredGroup(NamedTuple):
    """Consecutive readings of one stream in one row."""

    epoch: str
    seq: int
    first: int
    stream: str
    times: tuple[float, ...]


class DeclaredGap(NamedTuple):
    """A gap record of the lane `tel`; a stride above 1 covers the numbers that it does not divide."""

    epoch: str
    first: int
    last: int
    stride: int
    readings: int
    reason: str

    def covers(self, seq: int) -> bool:
        """Whether the row number is one that was given up."""
        return self.first <= seq <= self.last and (self.stride <= 1 or seq % self.stride != 0)


class StoredEvent(NamedTuple):
    """A verdict event or alarm."""

    epoch: str
    seq: int
    stream: str
    time_s: float


@dataclass(frozen=True, slots=True)
class Balance:
    """What became of every acknowledged reading."""

    acknowledged: int = 0
    stored: int = 0
    missing: int = 0
    declared: int = 0
    duplicate: int = 0
    phantom: int = 0
    order_errors: int = 0
    holes: int = 0
    examples: tuple[str, ...] = ()
    """Some readings that are missing, double or foreign."""

    @property
    def lost(self) -> int:
        """Missing, and no gap record says so."""
        return max(0, self.missing - self.declared)

    @property
    def overstated(self) -> int:
        """Declared as given up, and not missing."""
        return max(0, self.declared - self.missing)

    def faults(self) -> list[str]:
        """A sentence for each broken promise; none when every reading is accounted for."""
        broken = {
            "lost": self.lost,
            "stored twice": self.duplicate,
            "stored and never sent": self.phantom,
            "declared as given up and not missing": self.overstated,
            "out of order": self.order_errors,
        }
        found = [f"{count} readings {what}" for what, count in broken.items() if count]
        if self.holes:
            found.append(f"{self.holes} row numbers neither stored nor declared")
        if found and self.examples:
            found.append("for example " + ", ".join(self.examples))
        return found


def balance(
    acknowledged: Iterable[Reading],
    stored: Sequence[StoredGroup],
    gaps: Sequence[DeclaredGap] = (),
    *,
    also_sent: Iterable[Reading] = (),
    events: Sequence[StoredEvent] = (),
    rows: Iterable[tuple[str, int]] = (),
    holes_elsewhere: int = 0,
) -> Balance:
    """Compares the ledgers.

    `also_sent` was sent and not acknowledged, so that it may be stored or not; `events` are judged for
    order only; `rows` are (epoch, seq) of the lane that hold something else than readings;
    `holes_elsewhere` are those of other lanes.
    """
    acked = set(acknowledged)
    counts = Counter((group.stream, time) for group in stored for time in group.times)
    missing = acked - counts.keys()
    twice = [key for key, count in counts.items() if count > 1]
    foreign = counts.keys() - acked - set(also_sent)
    examples = [f"{kind} {key}" for kind, keys in _named(missing, twice, foreign) for key in keys]
    return Balance(
        acknowledged=len(acked),
        stored=sum(counts.values()),
        missing=len(missing),
        declared=sum(gap.readings for gap in gaps),
        duplicate=sum(counts[key] - 1 for key in twice),
        phantom=len(foreign),
        order_errors=_reading_order(stored) + _event_order(events),
        holes=holes_elsewhere
        + count_holes([*rows, *((group.epoch, group.seq) for group in stored)], gaps),
        examples=tuple(examples),
    )


def _named(
    missing: Iterable[Reading], twice: Iterable[Reading], foreign: Iterable[Reading]
) -> list[tuple[str, list[Reading]]]:
    kinds = {"missing": missing, "twice": twice, "never sent": foreign}
    return [(kind, sorted(keys)[:3]) for kind, keys in kinds.items()]


def _reading_order(stored: Sequence[StoredGroup]) -> int:
    """Readings that stand behind a later one of their stream."""
    latest: dict[tuple[str, str], float] = {}
    errors = 0
    for group in sorted(stored, key=lambda each: each[:3]):
        key = (group.epoch, group.stream)
        for time in group.times:
            if time < latest.get(key, float("-inf")):
                errors += 1
            else:
                latest[key] = time
    return errors


def _event_order(events: Sequence[StoredEvent]) -> int:
    lanes: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in sorted(events):
        lanes[event.epoch, event.stream].append(event.time_s)
    return sum(after < before for times in lanes.values() for before, after in pairwise(times))


def count_holes(rows: Iterable[tuple[str, int]], gaps: Sequence[DeclaredGap]) -> int:
    """Row numbers (epoch, seq) of one lane that nobody accounts for, below the highest that somebody does."""
    held: dict[str, set[int]] = defaultdict(set)
    for epoch, seq in rows:
        held[epoch].add(seq)
    declared: dict[str, list[DeclaredGap]] = defaultdict(list)
    for gap in gaps:
        declared[gap.epoch].append(gap)
    holes = 0
    for epoch in held.keys() | declared.keys():
        seqs, known = sorted(held[epoch]), declared[epoch]
        highest = max([*seqs[-1:], *(gap.last for gap in known)])
        for before, after in pairwise([0, *seqs, highest + 1]):
            if after - before > 1:
                near = [gap for gap in known if gap.first < after and gap.last > before]
                numbers = range(before + 1, after)
                holes += sum(not any(gap.covers(seq) for gap in near) for seq in numbers)
    return holes
