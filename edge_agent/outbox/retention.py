"""What to give up next when the outbox is too large or too old. Pure.

By value: raw readings first, and thinned before they are dropped; then rollups, escalations,
revisions, verdict events; alarms last. Gap records are never given up: they are what keeps the rest
honest, and they merge. Raw readings lose resolution with age: the newest band is whole, the next holds
every 2nd row, then every 4th …, and each band is kept about as large as the others, so that the time
covered doubles from band to band. Only what the coarsest band cannot hold is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from contract.status import RowClass

SHED_ORDER: Final = (
    RowClass.RAW,
    RowClass.ROLLUP,
    RowClass.ESCALATION,
    RowClass.REVISION,
    RowClass.VERDICT,
    RowClass.ALARM,
)
CHUNK_ROWS: Final = 256
"""Rows looked at in one step, so that a step is short."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """What each class may use: a share of the quota, and an age in seconds (absent: any).

    Shares overlap: what one class leaves, another may use.
    """

    shares: Mapping[RowClass, float]
    max_age_s: Mapping[RowClass, float]


@dataclass(frozen=True, slots=True)
class Cut:
    """One step: of the rows after..upto of a class keep those that `stride` divides; 0 keeps none.

    `band` is the index into the cuts that moves to `upto`; -1 for classes without bands. `upto` is -1
    where the executor takes the oldest `CHUNK_ROWS` rows.
    """

    kind: RowClass
    after: int
    upto: int
    stride: int = 0
    band: int = -1


def raw_cut(cuts: Sequence[int], *, base: int, limit: int) -> Cut | None:
    """The next step over the raw rows base+1..limit, or None when all are dropped.

    `cuts[k]`: up to it rows are thinned to every 2**(k+1)th; the last one: up to it they are dropped.
    """
    edges = [limit, *(min(max(cut, base), limit) for cut in cuts)]
    rows = [(edges[k] - edges[k + 1]) >> k for k in range(len(cuts))]
    band = max(range(len(rows)), key=lambda k: (rows[k], -k))
    if edges[band] == edges[band + 1]:
        band = next((k for k in range(len(rows)) if edges[k] > edges[k + 1]), -1)
        if band < 0:
            return None
    after = edges[band + 1]
    upto = min(edges[band], after + (CHUNK_ROWS << band))
    last = band == len(cuts) - 1
    return Cut(RowClass.RAW, after, upto, stride=0 if last else 2 << band, band=band)


def moved(cuts: Sequence[int], cut: Cut) -> list[int]:
    """The cuts after a step; a coarser band never reaches further than a finer one."""
    after = list(cuts)
    for band in range(cut.band + 1):
        after[band] = max(after[band], cut.upto)
    return after


def next_cut(
    cuts: Sequence[int],
    *,
    raw_base: int,
    raw_limit: int,
    exhausted: Collection[RowClass] = (),
    only: RowClass | None = None,
) -> Cut | None:
    """The cheapest thing to give up next, or None when nothing is left that may be.

    `exhausted` are the classes in which the executor found nothing more; `only` restricts the choice
    to the class that is over its own budget.
    """
    for kind in SHED_ORDER:
        if kind in exhausted or (only is not None and kind is not only):
            continue
        if kind is not RowClass.RAW:
            return Cut(kind, 0, -1)
        cut = raw_cut(cuts, base=raw_base, limit=raw_limit)
        if cut is not None:
            return cut
    return None


def over_budget(
    held_bytes: Mapping[RowClass, int],
    *,
    total_bytes: int,
    shares: Mapping[RowClass, float],
) -> list[RowClass]:
    """The classes that hold more than their share, cheapest first."""
    return [
        kind for kind in SHED_ORDER if held_bytes.get(kind, 0) > shares.get(kind, 1.0) * total_bytes
    ]
