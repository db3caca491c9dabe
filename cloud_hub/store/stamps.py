"""Writes down what stamps tell of devices' clocks, and says which boots have times to repair because of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_hub.store.clocks import EXTEND_S, Span, learn
from cloud_hub.store.statements import upsert
from cloud_hub.store.tables import clock_marks
from contract.messages import Clock
from contract.trust import SAME_CLOCK_S

Boot = tuple[str, str]
"""Device and boot id."""
AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class ClockNews:
    """Boots with times that can be repaired now; `again`: those whose repaired times may be wrong."""

    repairable: frozenset[Boot] = frozenset()
    again: frozenset[Boot] = frozenset()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.repairable or self.again)


@dataclass(slots=True)
class Stamps:
    """The stamps of some rows or reports: of the trusted ones those that may tell something."""

    trusted: dict[Boot, list[Clock]] = field(default_factory=lambda: defaultdict(list))
    doubtful: set[Boot] = field(default_factory=set)

    def note(self, device: str, stamp: Clock) -> None:
        """Takes a stamp in."""
        boot = (device, stamp.boot)
        if not stamp.trusted:
            self.doubtful.add(boot)
            return
        kept = self.trusted[boot]
        if kept and _says_the_same(kept[-1], stamp):
            return
        kept.append(stamp)


def _says_the_same(one: Clock, other: Clock) -> bool:
    offsets_s = (one.wall_s - one.mono_s) - (other.wall_s - other.mono_s)
    return abs(offsets_s) <= SAME_CLOCK_S and abs(one.mono_s - other.mono_s) <= EXTEND_S


async def write_stamps(connection: AsyncConnection, stamps: Stamps, *, now_s: float) -> ClockNews:
    """Writes down what is new; the same stamps again change nothing."""
    boots = sorted({*stamps.trusted, *stamps.doubtful})
    known = await load_spans(connection, boots)
    rows: list[dict[str, Any]] = []
    repairable: set[Boot] = set()
    again: set[Boot] = set()
    for boot in boots:
        spans = known.get(boot, ())
        lesson = learn(spans, stamps.trusted.get(boot, ()), now_s=now_s)
        rows += (_values(boot, span) for span in lesson.changed)
        if lesson.spans and (boot in stamps.doubtful or not spans):
            repairable.add(boot)
        if lesson.jumped:
            again.add(boot)
    if rows:
        await connection.execute(upsert(connection, clock_marks, update=("to_mono_s",)), rows)
    return ClockNews(frozenset(repairable), frozenset(again))


async def load_spans(
    connection: AsyncConnection, boots: Sequence[Boot]
) -> Mapping[Boot, tuple[Span, ...]]:
    """What is known of the clocks of these boots."""
    c = clock_marks.c
    found: dict[Boot, list[Span]] = defaultdict(list)
    for first in range(0, len(boots), AT_ONCE):
        wanted = tuple_(c.device, c.boot).in_(list(boots[first : first + AT_ONCE]))
        for row in await connection.execute(select(clock_marks).where(wanted)):
            span = Span(row.from_mono_s, row.to_mono_s, row.offset_s)
            found[row.device, row.boot].append(span)
    return {boot: tuple(spans) for boot, spans in found.items()}


async def known_boots(
    connection: AsyncConnection, *, after: Boot = ("", ""), most: int = AT_ONCE
) -> list[tuple[Boot, int]]:
    """Boots of which something is known, in order, and in how many spans."""
    c = clock_marks.c
    statement = (
        select(c.device, c.boot, func.count())
        .where(tuple_(c.device, c.boot) > tuple_(*after))
        .group_by(c.device, c.boot)
        .order_by(c.device, c.boot)
        .limit(most)
    )
    return [((device, boot), spans) for device, boot, spans in await connection.execute(statement)]


def _values(boot: Boot, span: Span) -> dict[str, Any]:
    return {
        "device": boot[0],
        "boot": boot[1],
        "from_mono_s": span.from_mono_s,
        "to_mono_s": span.to_mono_s,
        "offset_s": span.offset_s,
    }


def stamps_of(given: Iterable[tuple[str, Clock]]) -> Stamps:
    """The stamps of these devices."""
    stamps = Stamps()
    for device, stamp in given:
        stamps.note(device, stamp)
    return stamps
