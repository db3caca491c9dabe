"""Makes room in the spool: takes the steps that `retention` chose, and leaves a gap for each stretch.

Rows that were handed to the forwarder are spared at first, since the hub may hold them. When nothing
else is left, the oldest of them go too, with the reason `unconfirmed`: the hub counts such a gap only
for the rows that it does not hold.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from contract.status import Lane, RowClass
from edge_agent.outbox.gaps import Dropped
from edge_agent.outbox.records import CLASS_OF, CODE_OF, COLUMNS
from edge_agent.outbox.retention import (
    CHUNK_ROWS,
    SHED_ORDER,
    Budgets,
    Cut,
    moved,
    next_cut,
    over_budget,
)
from edge_agent.outbox.room import PAGE_BYTES
from edge_agent.outbox.transaction import Transaction, Victim, victims_of
from edge_agent.outbox.trimming import trim_due, trim_slice

QUOTA: Final = "quota"
AGE: Final = "age"
UNCONFIRMED: Final = "unconfirmed"
_MAX_STEPS: Final = 256
_SMALL_ROW_BYTES: Final = 1024
_META: Final = "seq, kind, readings, length(body) + length(model)"


@dataclass(slots=True)
class _Search:
    """What a search for room has found to be exhausted."""

    tx: Transaction
    confirmed: bool
    exhausted: set[RowClass]

    def next(self, *, only: RowClass | None = None) -> Cut | None:
        head = self.tx.head
        lane = head.lanes[Lane.TEL]
        base = max(lane.first - 1, lane.applied)
        if self.confirmed:
            base = max(base, self.tx.handed[Lane.TEL])
        limit = min(head.floor, lane.next_seq - 1)
        return next_cut(
            head.cuts, raw_base=base, raw_limit=limit, exhausted=self.exhausted, only=only
        )

    def take(self, cut: Cut) -> None:
        reason = QUOTA if self.confirmed else UNCONFIRMED
        if cut.band >= 0:
            _cut_raw(self.tx, cut, reason=reason)
        elif not _drop_oldest(self.tx, cut.kind, spare_handed=self.confirmed, reason=reason):
            self.exhausted.add(cut.kind)


def make_room(
    tx: Transaction, *, need_bytes: int, spared: Collection[RowClass] = frozenset()
) -> bool:
    """Sheds until `need_bytes` fit below the soft limit, or nothing more may be given up.

    False when it is still too full. Bounded: one call takes at most a few hundred short steps.
    `spared` are classes that are worth more than what the room is for.
    """
    limit = tx.db.soft_limit_bytes()
    while not (fits := tx.db.pages_used() * PAGE_BYTES + need_bytes <= limit):
        if not trim_due(tx.head):
            break
        trim_slice(tx)
    if fits:
        return True
    for confirmed in (True, False):
        search = _Search(tx, confirmed=confirmed, exhausted=set(spared))
        for _ in range(_MAX_STEPS):
            cut = search.next()
            if cut is None:
                break
            search.take(cut)
            if tx.db.pages_used() * PAGE_BYTES + need_bytes <= limit:
                return True
    return False


def keep_budgets(tx: Transaction, shares: Mapping[RowClass, float]) -> None:
    """Sheds from classes that hold more than their own share of the quota."""
    held = {kind: entry.bytes for kind, entry in tx.head.classes.items()}
    total = tx.db.quota_pages * PAGE_BYTES
    for kind in over_budget(held, total_bytes=total, shares=shares):
        search = _Search(tx, confirmed=True, exhausted=set())
        for _ in range(_MAX_STEPS):
            now = {kind: tx.head.classes[kind].bytes}
            if not over_budget(now, total_bytes=total, shares=shares):
                break
            cut = search.next(only=kind)
            if cut is None:
                break
            search.take(cut)


def expire(tx: Transaction, budgets: Budgets) -> int:
    """Drops a chunk of each class older than its budget says; returns how many rows.

    Age is the spool's own, which runs with the monotonic clock: no jump of the wall clock makes a row old.
    """
    dropped = 0
    for kind in SHED_ORDER:
        max_age_s = budgets.max_age_s.get(kind)
        if max_age_s is None or not tx.head.classes[kind].rows:
            continue
        before_s = tx.moment.age_s - max_age_s
        if kind is RowClass.RAW:
            dropped += _expire_raw(tx, before_s)
        else:
            dropped += _drop_oldest(tx, kind, spare_handed=True, reason=AGE, before_s=before_s)
    return dropped


def _expire_raw(tx: Transaction, before_s: float) -> int:
    head = tx.head
    base = max(head.lanes[Lane.TEL].first - 1, tx.handed[Lane.TEL])
    rows = tx.db.rows(
        f"SELECT seq, age FROM tel WHERE seq > ? AND seq <= ? AND kind = {CODE_OF[RowClass.RAW]}"
        " ORDER BY seq LIMIT ?",
        (base, head.floor, CHUNK_ROWS),
    )
    old = [seq for seq, age in rows if _older(age, before_s)]
    if not old:
        return 0
    cut = Cut(RowClass.RAW, old[0] - 1, old[-1], stride=0, band=len(head.cuts) - 1)
    return _cut_raw(tx, cut, reason=AGE)


def _cut_raw(tx: Transaction, cut: Cut, *, reason: str) -> int:
    tx.flush()
    rows = tx.db.rows(
        f"SELECT {_META} FROM tel WHERE seq > ? AND seq <= ? ORDER BY seq", (cut.after, cut.upto)
    )
    raw = CODE_OF[RowClass.RAW]
    going = [row for row in rows if row[1] == raw and (not cut.stride or row[0] % cut.stride)]
    gone = {row[0] for row in going}
    victims = victims_of(going, CLASS_OF)
    if victims:
        _delete(tx, cut, victims, small=_mean_cost(victims) < _SMALL_ROW_BYTES)
        tx.leave_gaps(
            Lane.TEL,
            [Dropped(row.seq, row.readings) for row in victims],
            held=[row[0] for row in rows if row[0] not in gone],
            stride=cut.stride or 1,
            reason=reason,
        )
    tx.head.cuts = moved(tx.head.cuts, cut)
    return len(victims)


def _delete(tx: Transaction, cut: Cut, victims: list[Victim], *, small: bool) -> None:
    """Deletes thinned rows; small survivors are written anew, else half-empty pages stay in use."""
    if not (small and cut.stride):
        tx.remove(Lane.TEL, victims, shed=True)
        return
    span = (cut.after, cut.upto)
    tx.db.run_many("DELETE FROM tel WHERE seq = ?", ((row.seq,) for row in victims))
    kept = tx.db.rows(f"SELECT {COLUMNS} FROM tel WHERE seq > ? AND seq <= ? ORDER BY seq", span)
    tx.db.run("DELETE FROM tel WHERE seq > ? AND seq <= ?", span)
    tx.db.run_many(f"INSERT INTO tel ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)", kept)
    tx.count_out(Lane.TEL, victims, shed=True)


def _drop_oldest(
    tx: Transaction,
    kind: RowClass,
    *,
    spare_handed: bool,
    reason: str,
    before_s: float | None = None,
) -> int:
    tx.flush()
    lane = kind.lane
    rows = tx.db.rows(
        f"SELECT {_META}, age FROM {lane} WHERE kind = {CODE_OF[kind]} AND seq > ?"
        " ORDER BY seq LIMIT ?",
        (tx.handed[lane] if spare_handed else tx.head.lanes[lane].applied, CHUNK_ROWS),
    )
    going = [row[:4] for row in rows if before_s is None or _older(row[4], before_s)]
    victims = victims_of(going, CLASS_OF)
    if victims:
        tx.remove(lane, victims, shed=True)
        tx.leave_gaps(
            lane,
            [Dropped(row.seq, row.readings) for row in victims],
            held=tx.held(lane, victims[0].seq, victims[-1].seq),
            stride=1,
            reason=reason,
        )
    return len(victims)


def _older(age: object, before_s: float) -> bool:
    """A damaged age is not old: the row is found out when it is read."""
    return isinstance(age, int | float) and age < before_s


def _mean_cost(victims: list[Victim]) -> float:
    return sum(row.cost for row in victims) / len(victims)
