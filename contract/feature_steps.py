"""The closed list of feature steps: each says how wide its output is, names it, and computes it.

To add a step: write one Struct with a `kind` tag and the four methods of `StepProtocol`, and add it to
`Step`. Nothing else knows the list. A new *field* on a step needs a default that means "as before":
defaults are left out of the canonical form, so the digests of older specifications stay what they were.

Everything here is computed row by row on arrays whose reduced axis is last and contiguous, because numpy's
order of summation depends on layout: that is what makes a row independent of its batch, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

HOUR_S: Final = 3600
DAY_S: Final = 86400
EPOCH_WEEKDAY: Final = 3
"""1 January 1970 was a Thursday; Monday is 0."""


@dataclass(frozen=True, slots=True)
class WindowBatch:
    """Windows as the steps see them: `by_row` [B, N, C], `by_channel` [B, C, N], `times` [B, N] (UTC epoch s)."""

    by_row: F64
    by_channel: F64
    times: F64


StepFunction = Callable[[WindowBatch], F64]
"""Computes f64 [B, width] from a batch."""


class StepProtocol(Protocol):
    """What every step promises; `window` is in rows, `channels` are the names on the last axis."""

    def width(self, window: int, channels: tuple[str, ...]) -> int:
        """How many features the step yields per window."""
        ...

    def names(self, window: int, channels: tuple[str, ...]) -> Iterator[str]:
        """One readable name per feature, in order."""
        ...

    def problems(self, window: int, channels: tuple[str, ...]) -> Iterator[str]:
        """What makes the step impossible to compute, in words."""
        ...

    def compiled(self, window: int, channels: tuple[str, ...]) -> StepFunction:
        """The function that computes the step, with everything constant prepared."""
        ...


class _StepBase(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind"
):
    """The wire habits that all steps share."""


SLOTS: Final[dict[str, int]] = {"hour_of_day": 24, "hour_of_week": 168}


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is usual at an hour of the (UTC) day or week: `table[slot][channel]`, in the channel's unit."""

    period: Literal["hour_of_day", "hour_of_week"]
    table: tuple[tuple[float, ...], ...]

    def slots(self, times: F64) -> NDArray[np.int64]:
        """Returns the table's row for each time; hour of week 0 is Monday 00:00 UTC."""
        hours = np.floor_divide(times, HOUR_S).astype(np.int64)
        if self.period == "hour_of_week":
            hours = hours + EPOCH_WEEKDAY * 24
        return hours % SLOTS[self.period]


class Values(_StepBase, frozen=True, tag="values"):
    """The window's own values, row by row, channels within a row.

    With `profile`, what is usual at that hour is subtracted first; with `scale` (one positive number per
    channel) the result is divided by it.
    """

    profile: Profile | None = None
    scale: tuple[float, ...] | None = None

    def width(self, window: int, channels: tuple[str, ...]) -> int:
        """How many features the step yields per window."""
        return window * len(channels)

    def names(self, window: int, channels: tuple[str, ...]) -> Iterator[str]:
        """One readable name per feature, in order."""
        for row in range(window):
            for channel in channels:
                yield f"{channel}[{row - window + 1}]"

    def problems(self, window: int, channels: tuple[str, ...]) -> Iterator[str]:
        """What makes the step impossible to compute, in words."""
        if self.scale is not None:
            if len(self.scale) != len(channels):
                yield f"scale has {len(self.scale)} numbers for {len(channels)} channels"
            if any(not (math.isfinite(s) and s > 0) for s in self.scale):
                yield "scale must be positive and finite"
        if self.profile is not None:
            rows = SLOTS[self.profile.period]
            if len(self.profile.table) != rows:
                yield f"a profile by {self.profile.period} has {rows} rows, not {len(self.profile.table)}"
            if any(len(row) != len(channels) for row in self.profile.table):
                yield f"every profile row has one number per channel ({len(channels)})"
            if any(not math.isfinite(v) for row in self.profile.table for v in row):
                yield "a profile holds finite numbers only"

    def compiled(self, window: int, channels: tuple[str, ...]) -> StepFunction:
        """The function that computes the step, with everything constant prepared."""
        width = self.width(window, channels)
        profile = self.profile
        table = None if profile is None else np.asarray(profile.table, dtype=np.float64)
        scale = None if self.scale is None else np.asarray(self.scale, dtype=np.float64)

        def values(batch: WindowBatch) -> F64:
            rows = batch.by_row
            if profile is not None and table is not None:
                rows = rows - table[profile.slots(batch.times)]
            if scale is not None:
                rows = rows / scale
            return rows.reshape(len(rows), width)

        return values


def _quantile(ordered: F64, fraction: float) -> F64:
    """Linear interpolation between order statistics, as numpy's default method; `ordered` is sorted on axis -1."""
    position = fraction * (ordered.shape[-1] - 1)
    low = math.floor(position)
    high = min(low + 1, ordered.shape[-1] - 1)
    below, above = ordered[..., low], ordered[..., high]
    return np.asarray(below + (above - below) * (position - low))


def _std(x: F64, _: F64) -> F64:
    deviation = x - np.mean(x, axis=-1, keepdims=True)
    return np.asarray(np.sqrt(np.mean(deviation * deviation, axis=-1)))


def _abs_diff_mean(x: F64, _: F64) -> F64:
    if x.shape[-1] < 2:
        return np.zeros(x.shape[:-1])
    return np.asarray(np.mean(np.abs(x[..., 1:] - x[..., :-1]), axis=-1), dtype=np.float64)


STATISTICS: Final[dict[str, Callable[[F64, F64], F64]]] = {
    "mean": lambda x, _: np.asarray(np.mean(x, axis=-1)),
    "std": _std,
    "min": lambda _, ordered: ordered[..., 0],
    "max": lambda _, ordered: ordered[..., -1],
    "range": lambda _, ordered: ordered[..., -1] - ordered[..., 0],
    "median": lambda _, ordered: _quantile(ordered, 0.5),
    "iqr": lambda _, ordered: _quantile(ordered, 0.75) - _quantile(ordered, 0.25),
    "rms": lambda x, _: np.sqrt(np.mean(x * x, axis=-1)),
    "abs_diff_mean": _abs_diff_mean,
}
"""Each maps (values [B, C, N], the same sorted on the last axis) to [B, C]. `std` divides by N."""


class Statistics(_StepBase, frozen=True, tag="statistics"):
    """Whole-window statistics; all channels of the first statistic, then of the second, and so on."""

    of: tuple[str, ...]

    def width(self, window: int, channels: tuple[str, ...]) -> int:
        """How many features the step yields per window."""
        return len(self.of) * len(channels)

    def names(self, window: int, channels: tuple[str, ...]) -> Iterator[str]:
        """One readable name per feature, in order."""
        for statistic in self.of:
            for channel in channels:
                yield f"{statistic}({channel})"

    def problems(self, window: int, channels: tuple[str, ...]) -> Iterator[str]:
        """What makes the step impossible to compute, in words."""
        if not self.of:
            yield "name at least one statistic"
        for name in self.of:
            if name not in STATISTICS:
                yield f"unknown statistic {name[:32]!r}; known: {', '.join(STATISTICS)}"
        if len(set(self.of)) != len(self.of):
            yield "a statistic is named twice"

    def compiled(self, window: int, channels: tuple[str, ...]) -> StepFunction:
        """The function that computes the step, with everything constant prepared."""
        functions = tuple(STATISTICS[name] for name in self.of)

        def statistics(batch: WindowBatch) -> F64:
            x = batch.by_channel
            ordered = np.sort(x, axis=-1)
            return np.concatenate([function(x, ordered) for function in functions], axis=1)

        return statistics


class TimeOfDay(_StepBase, frozen=True, tag="time_of_day"):
    """Sine and cosine of the last row's (UTC) time of day, so that 23:59 is near 00:00."""

    def width(self, window: int, channels: tuple[str, ...]) -> int:
        """How many features the step yields per window."""
        return 2

    def names(self, window: int, channels: tuple[str, ...]) -> Iterator[str]:
        """One readable name per feature, in order."""
        yield from ("sin(time_of_day)", "cos(time_of_day)")

    def problems(self, window: int, channels: tuple[str, ...]) -> Iterator[str]:
        """What makes the step impossible to compute, in words."""
        return iter(())

    def compiled(self, window: int, channels: tuple[str, ...]) -> StepFunction:
        """The function that computes the step, with everything constant prepared."""

        def time_of_day(batch: WindowBatch) -> F64:
            angle = np.mod(batch.times[:, -1], DAY_S) * (2.0 * math.pi / DAY_S)
            return np.stack((np.sin(angle), np.cos(angle)), axis=1)

        return time_of_day


Step = Values | Statistics | TimeOfDay
"""Every step there is; on the wire the field `kind` tells which."""
