"""Ring buffers of all streams of one kind, in columns; a window falls due every `hop` readings."""

from __future__ import annotations

import numpy as np

from edge_agent.types import F64, I64, ReadingBatch, WindowBatch

SLACK = 64
"""Rows a ring holds beyond its window, so that a burst of one stream fits before it is gathered."""


class Rings:
    """The last readings of every stream of one kind.

    Promises: windows come in the order of their last readings; window k of a stream ends at reading
    `window + k * hop`; the result does not depend on how readings were cut into batches.
    """

    def __init__(self, *, kind: int, window: int, hop: int, channels: int) -> None:
        """Empty rings of `window` rows and `channels` columns."""
        self._kind, self.window, self.hop = kind, window, hop
        self._length = window + SLACK
        self._values = np.full((0, self._length, channels), np.nan)
        self._times = np.zeros((0, self._length))
        self.counts: I64 = np.zeros(0, dtype=np.int64)

    def push(self, batch: ReadingBatch) -> list[WindowBatch]:
        """Takes readings in and returns the windows that fell due, in order."""
        if not len(batch):
            return []
        self._grow(int(batch.slots.max()) + 1)
        return [
            due
            for start in range(0, len(batch), SLACK)
            if (due := self._push(batch, start, min(start + SLACK, len(batch)))) is not None
        ]

    def _push(self, batch: ReadingBatch, start: int, end: int) -> WindowBatch | None:
        slots = batch.slots[start:end]
        numbers = self.counts[slots] + ranks(slots) + 1
        places = (numbers - 1) % self._length
        self._values[slots, places] = batch.values[start:end]
        self._times[slots, places] = batch.times_s[start:end]
        self.counts[slots] = numbers  # of equal slots the last, highest number stays
        due = np.flatnonzero((numbers >= self.window) & ((numbers - self.window) % self.hop == 0))
        if not len(due):
            return None
        rows = (numbers[due, None] - self.window + np.arange(self.window)) % self._length
        owners = slots[due, None]
        return WindowBatch(
            kind=self._kind,
            slots=slots[due],
            numbers=numbers[due],
            last=(due + start).astype(np.int32),
            values=self._values[owners, rows],
            times_s=self._times[owners, rows],
            arrivals_ns=batch.arrivals_ns[start:end][due],
        )

    def tail(self, slot: int) -> tuple[int, F64, F64]:
        """The running number of a stream and its last readings, oldest first: times, values."""
        if slot >= len(self.counts):
            return 0, np.zeros(0), self._values[:0, 0]
        count = int(self.counts[slot])
        rows = np.arange(max(0, count - self.window), count) % self._length
        return count, self._times[slot, rows], self._values[slot, rows]

    def restore(self, slot: int, count: int, times_s: F64, values: F64) -> None:
        """Sets a stream to what `tail` returned."""
        self._grow(slot + 1)
        rows = np.arange(count - len(times_s), count) % self._length
        self._times[slot, rows], self._values[slot, rows] = times_s, values
        self.counts[slot] = count

    def _grow(self, slots: int) -> None:
        have = len(self.counts)
        if slots <= have:
            return
        size = max(slots, have + have // 2, 4)
        values = np.full((size, *self._values.shape[1:]), np.nan)
        times = np.zeros((size, self._length))
        counts = np.zeros(size, dtype=np.int64)
        values[:have], times[:have], counts[:have] = self._values, self._times, self.counts
        self._values, self._times, self.counts = values, times, counts


def ranks(slots: np.ndarray) -> I64:
    """For each element, how many equal ones stand before it: [0, 0, 1] for slots [3, 5, 3]."""
    if len(slots) == 1:
        return np.zeros(1, dtype=np.int64)
    order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(slots)])
    result = np.empty(len(slots), dtype=np.int64)
    result[order] = np.arange(len(slots)) - np.repeat(starts, lengths)
    return result


def fill_holes(values: F64) -> tuple[F64, np.ndarray]:
    """Windows [m, n, c] with each hole held at the last value before it (or the first after it).

    Also returns [m] the largest share of holes of any channel; a channel without any value keeps
    its NaN and has a share of 1.
    """
    holes = np.isnan(values)
    if not holes.any():
        return values, np.zeros(len(values))
    filled = values.copy()
    count = values.shape[1]
    for row in range(1, count):
        np.copyto(filled[:, row], filled[:, row - 1], where=np.isnan(filled[:, row]))
    for row in range(count - 2, -1, -1):
        np.copyto(filled[:, row], filled[:, row + 1], where=np.isnan(filled[:, row]))
    return filled, holes.mean(axis=1).max(axis=1)
