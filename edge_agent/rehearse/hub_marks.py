"""Which rows of a lane the stand-in hub needs no more: stored, or replaced by a gap record. Pure.

Simple on purpose: it steps through numbers one by one, and a rehearsal has some thousands of them.
"""

from __future__ import annotations

from typing import Final

from contract.messages import Gap, Watermark

MAX_MISSING: Final = 64
MAX_STEPS: Final = 2_000_000


class LaneMarks:
    """One lane of one device and epoch."""

    def __init__(self) -> None:
        self.applied = 0
        self._above: set[int] = set()
        self._gaps: list[Gap] = []
        self._top = 0

    def add_row(self, seq: int) -> None:
        """A row is stored."""
        self._top = max(self._top, seq)
        if seq > self.applied:
            self._above.add(seq)

    def add_gap(self, gap: Gap) -> None:
        """A stretch was given up."""
        if gap.last > self.applied:
            self._gaps.append(gap)

    def advance(self) -> None:
        """Moves `applied` as far as nothing is absent."""
        for _ in range(MAX_STEPS):
            end = self._settled_to(self.applied + 1)
            if end <= self.applied:
                break
            self.applied = end
        self._above = {seq for seq in self._above if seq > self.applied}
        self._gaps = [gap for gap in self._gaps if gap.last > self.applied]

    def watermark(self, *, epoch: str, pending: int) -> Watermark:
        """As a device is told."""
        missing: list[tuple[int, int]] = []
        seq = self.applied + 1
        while seq < self._top and len(missing) < MAX_MISSING:
            end = self._settled_to(seq)
            if end >= seq:
                seq = end + 1
                continue
            first = seq
            while seq < self._top and self._settled_to(seq) < seq:
                seq += 1
            missing.append((first, seq - 1))
        return Watermark(epoch, self.applied, tuple(missing), pending)

    def _settled_to(self, seq: int) -> int:
        """The end of a settled run from `seq` on, seq - 1 when it is not settled itself."""
        if seq in self._above:
            return seq
        for gap in self._gaps:
            if gap.first <= seq <= gap.last:
                if gap.stride <= 1:
                    return gap.last
                if seq % gap.stride:
                    return seq
        return seq - 1
