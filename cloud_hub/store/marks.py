"""Which rows of a lane need nothing more: stored, or replaced by a gap record. Pure.

Numbers start at 1. A gap record covers, of first..last, the numbers that its stride does not divide; a
stride of 1 or less keeps none and covers all. A thinned stretch stays one entry here, however long it is.

Strides are powers of two, so where stretches overlap the largest stride alone says what was kept. Nothing
here takes more steps than there are entries, however many rows they span.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

import msgspec

LaneKey = tuple[str, str, str]
"""Device, epoch, lane."""
Range = tuple[int, int]
"""First and last number, both included."""
Stretch = tuple[int, int, int]
"""First, last and stride (2, 4, 8 …) of a thinned stretch."""

MAX_RANGES: Final = 4096
"""Of more ranges the highest are forgotten: their rows are then asked for again and found stored."""
_BEYOND: Final = 1 << 62


class Marks(msgspec.Struct, frozen=True, array_like=True):
    """All up to `applied` is settled; `ranges` and `thinned` are each sorted, apart, and end beyond it.

    `top` is the highest row seen.
    """

    applied: int = 0
    ranges: tuple[Range, ...] = ()
    thinned: tuple[Stretch, ...] = ()
    top: int = 0

    def __contains__(self, seq: int) -> bool:
        """Whether the row `seq` is settled."""
        return seq <= self.applied or self._settled_to(seq) >= seq

    def add(
        self,
        *,
        rows: Iterable[int] = (),
        covered: Iterable[Range] = (),
        thinned: Iterable[Stretch] = (),
    ) -> Marks:
        """The marks after these rows were stored and these stretches given up; their order does not matter.

        A stretch whose stride is not a power of two settles nothing.
        """
        numbers = sorted(rows)
        merged = _merged([(1, self.applied), *self.ranges, *covered, *((n, n) for n in numbers)])
        applied = 0
        if merged and merged[0][0] <= 1:
            applied = merged.pop(0)[1]
        stretches = tuple(_layered({*self.thinned, *thinned}, above=applied))
        top = max(self.top, numbers[-1] if numbers else 0)
        return Marks(applied, tuple(merged), stretches, top)._advanced()

    def missing(self, *, limit: int) -> tuple[Range, ...]:
        """The lowest `limit` ranges that a stored row beyond them shows to be absent."""
        holes: list[Range] = []
        seq = self.applied + 1
        while seq < self.top and len(holes) < limit:
            settled = self._settled_to(seq)
            if settled >= seq:
                seq = settled + 1
                continue
            end = min(self._open_to(seq), self.top)
            holes.append((seq, end))
            seq = end + 1
        return tuple(_merged(holes))

    def _advanced(self) -> Marks:
        """The same marks with `applied` as high as it can be, and nothing kept that it includes."""
        applied = self.applied
        while (settled := self._settled_to(applied + 1)) > applied:
            applied = settled
        return Marks(
            applied,
            tuple(each for each in self.ranges if each[1] > applied)[:MAX_RANGES],
            tuple(each for each in self.thinned if each[1] > applied)[:MAX_RANGES],
            self.top,
        )

    def _settled_to(self, seq: int) -> int:
        """The end of a run of settled numbers from `seq` on, or seq - 1 when it is not settled itself."""
        index = bisect_right(self.ranges, (seq, _BEYOND)) - 1
        if index >= 0 and self.ranges[index][1] >= seq:
            return self.ranges[index][1]
        index = bisect_right(self.thinned, (seq, _BEYOND, _BEYOND)) - 1
        if index >= 0:
            _, last, stride = self.thinned[index]
            if seq <= last and seq % stride:
                return min(last, seq - seq % stride + stride - 1)
        return seq - 1

    def _open_to(self, seq: int) -> int:
        """The end of a run of numbers from the unsettled `seq` on that nothing settles."""
        index = bisect_right(self.ranges, (seq, _BEYOND))
        end = self.ranges[index][0] - 1 if index < len(self.ranges) else _BEYOND
        index = bisect_right(self.thinned, (seq, _BEYOND, _BEYOND))
        if index and self.thinned[index - 1][1] > seq:
            return seq
        return min(end, self.thinned[index][0] - 1) if index < len(self.thinned) else end


def _merged(ranges: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if last < first:
            continue
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _layered(stretches: Iterable[Stretch], *, above: int) -> list[Stretch]:
    """The stretches that end above a number, sorted and apart: of those that overlap the largest stride holds.

    Of more than twice MAX_RANGES the lowest are looked at.
    """
    usable = sorted(each for each in stretches if above < each[1] and _is_stride(each[2]))
    edges: list[tuple[int, int, int]] = []
    for first, last, stride in usable[: 2 * MAX_RANGES]:
        if first <= last:
            edges += (first, stride, 1), (last + 1, stride, -1)
    layers: list[Stretch] = []
    open_now: dict[int, int] = {}
    start = 0
    for number, stride, change in sorted(edges):
        largest = max((each for each, count in open_now.items() if count), default=0)
        if largest and number > start:
            if layers and layers[-1][1:] == (start - 1, largest):
                layers[-1] = (layers[-1][0], number - 1, largest)
            else:
                layers.append((start, number - 1, largest))
        start = number
        open_now[stride] = open_now.get(stride, 0) + change
    return layers


def _is_stride(stride: int) -> bool:
    return stride > 1 and stride & (stride - 1) == 0
