"""Figures over stored readings, each counted once, and how much of the span they cover; memory is bounded."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_hub.store.gap_queries import DeclaredGap, declared_gaps
from cloud_hub.store.telemetry_queries import Readings, stream_readings
from contract.trust import ReadingFlag

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChannelFigures:
    """One channel of one stream; `missing` readings had no value of it. min, max and mean need a value."""

    channel: str
    unit: str
    count: int
    missing: int
    minimum: float | None
    maximum: float | None
    mean: float | None


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """One stream: its readings, the first and last time, and how many times are not sure or were repaired."""

    stream: str
    readings: int
    first_s: float
    last_s: float
    untrusted: int
    repaired: int
    channels: tuple[ChannelFigures, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """The streams that were asked for, and what of the device's readings in the span is here.

    `stored` and `lost` are of all streams, since a gap does not say of which it was; `coverage` is
    stored / (stored + lost), None without either. Where `exact` is false, some lost readings were never counted.
    """

    streams: tuple[StreamFigures, ...]
    gaps: tuple[DeclaredGap, ...]
    stored: int
    lost: int
    coverage: float | None
    exact: bool


@dataclass(slots=True)
class _Channel:
    unit: str
    count: int = 0
    missing: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    total: float = 0.0
    lost_bits: float = 0.0
    """What the sum is off by (Kahan), so that the mean does not depend on how many rows there are."""

    def take(self, values: F64) -> None:
        there = values[np.isfinite(values)]
        self.missing += len(values) - len(there)
        if not len(there):
            return
        self.count += len(there)
        self.low = min(self.low, float(there.min()))
        self.high = max(self.high, float(there.max()))
        part = float(there.sum()) - self.lost_bits
        total = self.total + part
        self.lost_bits = (total - self.total) - part
        self.total = total


@dataclass(slots=True)
class _Stream:
    readings: int = 0
    first_s: float = float("inf")
    last_s: float = float("-inf")
    untrusted: int = 0
    repaired: int = 0
    channels: dict[str, _Channel] = field(default_factory=dict)

    def take(self, group: Readings) -> None:
        self.readings += len(group.times)
        self.first_s = min(self.first_s, float(group.times.min()))
        self.last_s = max(self.last_s, float(group.times.max()))
        doubt = ReadingFlag.TIME_UNTRUSTED | ReadingFlag.CLOCK_UNTRUSTED
        self.untrusted += int(np.count_nonzero(group.flags & np.uint8(doubt)))
        repaired = group.flags & np.uint8(ReadingFlag.TIME_REPAIRED)
        self.repaired += int(np.count_nonzero(repaired))
        for index, (name, unit) in enumerate(zip(group.channels, group.units, strict=True)):
            self.channels.setdefault(name, _Channel(unit)).take(group.values[:, index])


async def telemetry_figures(
    connection: AsyncConnection,
    device: str,
    *,
    stream: str | None = None,
    from_s: float | None = None,
    to_s: float | None = None,
) -> Figures:
    """Figures of a device's readings in from_s ≤ time < to_s, of one stream or of each.

    They are computed from rows that are stored once, one row at a time.
    """
    streams: dict[str, _Stream] = {}
    stored = 0
    async for group in stream_readings(connection, device, from_s=from_s, to_s=to_s):
        stored += len(group.times)
        if stream is None or group.stream == stream:
            streams.setdefault(group.stream, _Stream()).take(group)
    gaps = await declared_gaps(connection, device, from_s=from_s, to_s=to_s)
    lost = sum(gap.readings for gap in gaps)
    return Figures(
        streams=tuple(_figures(name, each) for name, each in sorted(streams.items())),
        gaps=gaps,
        stored=stored,
        lost=lost,
        coverage=stored / (stored + lost) if stored + lost else None,
        exact=all(gap.exact for gap in gaps),
    )


def _figures(name: str, found: _Stream) -> StreamFigures:
    return StreamFigures(
        stream=name,
        readings=found.readings,
        first_s=found.first_s,
        last_s=found.last_s,
        untrusted=found.untrusted,
        repaired=found.repaired,
        channels=tuple(_channel(each, of) for each, of in found.channels.items()),
    )


def _channel(name: str, found: _Channel) -> ChannelFigures:
    some = found.count > 0
    return ChannelFigures(
        channel=name,
        unit=found.unit,
        count=found.count,
        missing=found.missing,
        minimum=found.low if some else None,
        maximum=found.high if some else None,
        mean=found.total / found.count if some else None,
    )
