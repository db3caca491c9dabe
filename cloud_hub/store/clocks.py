"""What trusted stamps tell of a boot's clock: wall less monotonic time, from one moment to another. Pure.

While a device runs, its monotonic clock is never wrong and its wall clock may be. One trusted stamp says what
time it was at every moment of the same boot, before it and after it. Another boot's clock began anew: it
tells nothing. Where the wall clock jumped although it was trusted, there are several spans, and the nearest
one holds, the later one where two are equally near.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from contract.messages import Clock
from contract.trust import AHEAD_S, BUILD_S, SAME_CLOCK_S

EXTEND_S: Final = 60.0
"""A span is written down anew only when it has grown by this."""
MAX_SPANS: Final = 64
"""Spans of one boot; a clock that jumps more often is not repaired by later ones."""


@dataclass(frozen=True, slots=True)
class Span:
    """From one monotonic moment to another the wall clock stood `offset_s` ahead of the monotonic one."""

    from_mono_s: float
    to_mono_s: float
    offset_s: float

    def distance_s(self, mono_s: float) -> float:
        """How far a moment lies outside the span."""
        return max(self.from_mono_s - mono_s, mono_s - self.to_mono_s, 0.0)


@dataclass(frozen=True, slots=True)
class Lesson:
    """The spans after some stamps, those to write down, and whether what was known before is now doubtful."""

    spans: tuple[Span, ...]
    changed: tuple[Span, ...]
    jumped: bool


def tells(stamp: Clock, *, now_s: float) -> bool:
    """Whether a stamp can be believed: trusted, not before the build date, not ahead of the hub."""
    numbers = math.isfinite(stamp.mono_s) and math.isfinite(stamp.wall_s)
    return stamp.trusted and numbers and BUILD_S <= stamp.wall_s <= now_s + AHEAD_S


def learn(spans: Sequence[Span], stamps: Iterable[Clock], *, now_s: float) -> Lesson:
    """What is known after these stamps of one boot; a stamp that says nothing new changes nothing."""
    known, touched, jumped = list(spans), set[float](), False
    for stamp in sorted(stamps, key=lambda each: each.mono_s):
        if not tells(stamp, now_s=now_s):
            continue
        mono_s, offset_s = stamp.mono_s, stamp.wall_s - stamp.mono_s
        near = nearest(known, mono_s)
        same = near is not None and abs(near.offset_s - offset_s) <= SAME_CLOCK_S
        if near is not None and same and near.distance_s(mono_s) <= EXTEND_S:
            continue
        if near is not None and same and mono_s > near.to_mono_s:
            known[known.index(near)] = replace(near, to_mono_s=mono_s)
            touched.add(near.from_mono_s)
        elif len(known) < MAX_SPANS and all(each.from_mono_s != mono_s for each in known):
            jumped = jumped or (bool(known) and not same)
            known.append(Span(mono_s, mono_s, offset_s))
            touched.add(mono_s)
    changed = tuple(each for each in known if each.from_mono_s in touched)
    return Lesson(tuple(known), changed, jumped)


def nearest(spans: Sequence[Span], mono_s: float) -> Span | None:
    """The span that holds at a moment of the boot, if any is known."""
    return min(spans, key=lambda each: (each.distance_s(mono_s), -each.from_mono_s), default=None)


def shift_of(spans: Sequence[Span], *, mono_s: float, wall_s: float) -> float | None:
    """What must be added to an untrusted wall time; 0 where it was right, None where nothing is known."""
    span = nearest(spans, mono_s)
    if span is None:
        return None
    shift_s = span.offset_s - (wall_s - mono_s)
    return 0.0 if abs(shift_s) <= SAME_CLOCK_S else shift_s
