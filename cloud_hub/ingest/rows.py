"""What each class of row becomes in the tables, and what makes it unusable. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from cloud_hub.store.apply import Batch, Values
from cloud_hub.store.gaps import gap_values
from cloud_hub.store.marks import LaneKey
from cloud_hub.store.revising import DEVICE, WAITING, revision_values
from contract.encoding import MAX_READINGS_PER_ROW, decode
from contract.messages import (
    Clock,
    Escalation,
    Gap,
    RawRow,
    ReadingGroup,
    Revision,
    Rollup,
    VerdictEvent,
)
from contract.status import Lane, RowClass
from contract.subjects import is_name, is_request_id

MAX_TEXT: Final = 256
MAX_GAP_ROWS: Final = 10_000_000
GAP_STRIDES: Final = frozenset({0, *(1 << power for power in range(21))})
"""A device keeps none, or every 2nd, 4th, 8th … row; marks rely on strides that divide each other."""


class RowError(ValueError):
    """A row that says something impossible."""


class RowPlace(NamedTuple):
    """Where a row belongs; the device is the subject's, whatever the body says."""

    device: str
    epoch: str
    lane: Lane
    seq: int

    @property
    def key(self) -> LaneKey:
        """The lane that the row is numbered in."""
        return self.device, self.epoch, self.lane.value

    def columns(self) -> Values:
        """The columns of a row's primary key."""
        return {
            "device": self.device,
            "epoch": self.epoch,
            "lane": self.lane.value,
            "seq": self.seq,
        }


def add_row(
    batch: Batch, place: RowPlace, kind: str, body: bytes, *, subject: tuple[str, ...]
) -> int:
    """Adds a row to the batch, all of it or nothing; returns how many readings it holds.

    Raises RowError or EncodingError when it must be set aside.
    """
    try:
        row_class = RowClass(kind)
    except ValueError:
        raise RowError(f"unknown class of row {kind[:32]!r}") from None
    if row_class.lane is not place.lane:
        raise RowError(f"a row of class {row_class} does not travel in lane {place.lane}")
    return _ADDERS[row_class](batch, place, body, subject)


def _add_raw(batch: Batch, place: RowPlace, body: bytes, _: tuple[str, ...]) -> int:
    row = decode(body, RawRow)
    _check_groups(row.groups)
    low, high = _time_ranges(row.groups)
    clock = _clock(row.clock)
    key = place.columns()
    batch.stamps.note(place.device, row.clock)
    batch.telemetry.extend(
        {
            **key,
            **clock,
            "first": group.first,
            "stream": group.stream,
            "count": group.count,
            "t_min": low[index],
            "t_max": high[index],
            "channels": _names(group.channels),
            "units": _names(group.units),
            "times": group.times,
            "arrivals": group.arrivals,
            "values": group.values,
            "flags": group.flags,
            "own": group.own or None,
        }
        for index, group in enumerate(row.groups)
    )
    return sum(group.count for group in row.groups)


def _time_ranges(groups: tuple[ReadingGroup, ...]) -> tuple[list[float], list[float]]:
    """The earliest and latest time of each group."""
    times = np.frombuffer(b"".join(group.times for group in groups), "<f8")
    if len(groups) == 1:
        low, high = [float(times.min())], [float(times.max())]
    else:
        starts = np.cumsum([0, *(group.count for group in groups[:-1])])
        low = np.minimum.reduceat(times, starts).tolist()
        high = np.maximum.reduceat(times, starts).tolist()
    if not all(map(math.isfinite, (*low, *high))):
        raise RowError("a reading's time is not finite")
    return low, high


def _check_groups(groups: tuple[ReadingGroup, ...]) -> None:
    if not groups:
        raise RowError("a raw row without readings")
    taken: set[int] = set()
    total = 0
    for group in groups:
        n, c = group.count, len(group.channels)
        _text(group.stream, "stream name")
        if n < 1 or c < 1 or len(group.units) != c:
            raise RowError("a group needs readings, channels, and one unit each")
        sizes = (len(group.times), len(group.arrivals), len(group.values), len(group.flags))
        if sizes != (8 * n, 8 * n, 8 * n * c, n) or len(group.own) not in (0, 8 * n):
            raise RowError(f"columns of {sizes} bytes do not hold {n} readings of {c} channels")
        if not 0 <= group.first < MAX_READINGS_PER_ROW or group.first in taken:
            raise RowError("two groups begin at the same reading, or beyond the row")
        taken.add(group.first)
        total += n
    if total > MAX_READINGS_PER_ROW:
        raise RowError(f"{total} readings in a row; at most {MAX_READINGS_PER_ROW}")


@lru_cache(maxsize=4096)
def _names(names: tuple[str, ...]) -> str:
    for name in names:
        if "\x00" in name or len(name) > MAX_TEXT:
            raise RowError("a channel's name or unit is too long, or holds NUL")
    return msgspec.json.encode(names).decode()


def _add_verdict(kind: RowClass) -> Callable[[Batch, RowPlace, bytes, tuple[str, ...]], int]:
    def add(batch: Batch, place: RowPlace, body: bytes, _: tuple[str, ...]) -> int:
        event = decode(body, VerdictEvent)
        values = _event(batch, place, kind, payload=event)
        identity = _identity(event.id, event.stream, event.time_s)
        batch.events.append({**values, **identity, **_clock(event.clock)})
        batch.stamps.note(place.device, event.clock)
        return 0

    return add


def _add_revision(batch: Batch, place: RowPlace, body: bytes, _: tuple[str, ...]) -> int:
    revision = decode(body, Revision)
    _finite(revision.score, "score")
    _finite(revision.confidence, "confidence")
    _text(revision.label, "label", most=64)
    _text(revision.model, "model", most=64)
    values = _event(batch, place, RowClass.REVISION, payload=revision)
    identity = _identity(revision.verdict, revision.stream, revision.time_s)
    batch.events.append({**values, **identity, **_clock(revision.clock)})
    if revision.clock is not None:
        batch.stamps.note(place.device, revision.clock)
    batch.revisions.append(
        revision_values(place.device, revision, source=DEVICE, made_s=batch.received_s)
    )
    return 0


def _event(batch: Batch, place: RowPlace, kind: RowClass, *, payload: msgspec.Struct) -> Values:
    return {
        **place.columns(),
        "kind": kind.value,
        "payload": _json(payload),
        "received_s": batch.received_s,
    }


def _identity(identity: str, stream: str, time_s: float) -> Values:
    return {
        "stream": _text(stream, "stream name"),
        "time_s": _finite(time_s, "time"),
        "id": _text(identity, "id", most=128),
    }


def _add_gap(batch: Batch, place: RowPlace, body: bytes, _: tuple[str, ...]) -> int:
    gap = decode(body, Gap)
    if not 1 <= gap.first <= gap.last or gap.last - gap.first >= MAX_GAP_ROWS or gap.readings < 0:
        raise RowError("a gap covers rows first..last, at most ten million, and counts readings")
    if gap.stride not in GAP_STRIDES:
        raise RowError("a gap's stride is 0, or a power of two up to 2^20")
    if gap.epoch and not is_request_id(gap.epoch):
        raise RowError("an epoch has 1 to 64 letters, digits, - and _")
    key = (place.device, gap.epoch or place.epoch, gap.lane.value)
    batch.gaps.append(
        gap_values(
            place.columns(),
            key,
            (gap.first, gap.last, gap.stride),
            readings=gap.readings,
            reason=_text(gap.reason, "reason"),
            exact=gap.exact,
        )
    )
    if gap.stride > 1:
        batch.thinned.setdefault(key, []).append((gap.first, gap.last, gap.stride))
    else:
        batch.covered.setdefault(key, []).append((gap.first, gap.last))
    return 0


def _add_escalation(batch: Batch, place: RowPlace, body: bytes, subject: tuple[str, ...]) -> int:
    escalation = decode(body, Escalation)
    if subject != (escalation.model,) or not is_name(escalation.model):
        raise RowError("the escalation names another model than its subject")
    _finite(escalation.time_s, "time")
    batch.escalations.append(
        {
            "device": place.device,
            "verdict": _text(escalation.verdict, "verdict id", most=128),
            "epoch": place.epoch,
            "seq": place.seq,
            "model": escalation.model,
            "received_s": batch.received_s,
            "body": body,
            "state": WAITING,
            "reason": "",
            "attempts": 0,
        }
    )
    return 0


def _add_rollup(batch: Batch, place: RowPlace, body: bytes, _: tuple[str, ...]) -> int:
    rollup = decode(body, Rollup)
    batch.rollups.append(
        {
            **place.columns(),
            "stream": _text(rollup.stream, "stream name"),
            "from_s": _finite(rollup.from_s, "time"),
            "to_s": _finite(rollup.to_s, "time"),
            "payload": _json(rollup),
            **_clock(rollup.clock),
        }
    )
    if rollup.clock is not None:
        batch.stamps.note(place.device, rollup.clock)
    return 0


_ADDERS: Final[dict[RowClass, Callable[[Batch, RowPlace, bytes, tuple[str, ...]], int]]] = {
    RowClass.ALARM: _add_verdict(RowClass.ALARM),
    RowClass.VERDICT: _add_verdict(RowClass.VERDICT),
    RowClass.REVISION: _add_revision,
    RowClass.GAP: _add_gap,
    RowClass.ESCALATION: _add_escalation,
    RowClass.ROLLUP: _add_rollup,
    RowClass.RAW: _add_raw,
}


def _clock(clock: Clock | None) -> Values:
    """The columns of a row's stamp; empty ones where it has none."""
    if clock is None:
        return {"boot": None, "mono_s": None, "wall_s": None, "clock_trusted": None}
    return {
        "boot": _text(clock.boot, "boot id", most=64),
        "mono_s": _finite(clock.mono_s, "monotonic time"),
        "wall_s": _finite(clock.wall_s, "wall time"),
        "clock_trusted": clock.trusted,
    }


def _json(payload: Any) -> str:
    text = msgspec.json.encode(payload).decode()
    if "\\u0000" in text:
        raise RowError("a text holds NUL")
    return text


def _text(text: str, what: str, *, most: int = MAX_TEXT) -> str:
    if "\x00" in text or len(text) > most:
        raise RowError(f"the {what} is longer than {most} characters, or holds NUL")
    return text


def _finite(number: float, what: str) -> float:
    if not math.isfinite(number):
        raise RowError(f"the {what} is not finite")
    return number
