"""What a gap record says: which row numbers it replaces. Pure.

A gap covers, of first..last, the numbers that its stride does not divide; a stride of 1 or less keeps
none and covers all. Thinning keeps the rows whose number a power of two divides, so that a stretch of
any length is one record, and thinning it again needs no list of what was left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from contract.messages import Gap
from contract.status import Lane


class Dropped(NamedTuple):
    """A row that is given up, and how many readings it held."""

    seq: int
    readings: int


def covers(gap: Gap, seq: int) -> bool:
    """Whether the row `seq` of the gap's lane is one that the gap replaces."""
    return gap.first <= seq <= gap.last and (gap.stride <= 1 or seq % gap.stride != 0)


def stretches(
    dropped: Sequence[Dropped], *, held: Sequence[int], lane: Lane, stride: int, reason: str
) -> list[Gap]:
    """The fewest gap records that cover all of `dropped` and none of `held`; both are sorted.

    `held` are the numbers that stay, at least those between the first and the last dropped one.
    """
    kept = [seq for seq in held if stride <= 1 or seq % stride != 0]
    gaps: list[Gap] = []
    for row in dropped:
        last = gaps[-1] if gaps else None
        if last is not None and bisect_left(kept, last.last) == bisect_left(kept, row.seq):
            gaps[-1] = Gap(lane, last.first, row.seq, stride, last.readings + row.readings, reason)
        else:
            gaps.append(Gap(lane, row.seq, row.seq, stride, row.readings, reason))
    return gaps


def joined(old: Gap, new: Gap) -> Gap | None:
    """One record in place of two, or None when they differ in more than where they lie.

    The caller knows that no row is held between them that the joined record would cover.
    """
    if (old.lane, old.stride, old.reason) != (new.lane, new.stride, new.reason):
        return None
    if new.first <= old.last or old.exact != new.exact or old.epoch != new.epoch:
        return None
    return msgspec.structs.replace(old, last=new.last, readings=old.readings + new.readings)


def uncovered(first: int, last: int, *, held: Sequence[int], gaps: Sequence[Gap]) -> list[range]:
    """The numbers of first..last that are neither held nor covered by a gap, in runs."""
    known = set(held)
    runs: list[range] = []
    for seq in range(first, last + 1):
        if seq in known or any(covers(gap, seq) for gap in gaps):
            continue
        if runs and runs[-1].stop == seq:
            runs[-1] = range(runs[-1].start, seq + 1)
        else:
            runs.append(range(seq, seq + 1))
    return runs
