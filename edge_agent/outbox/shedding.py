"""Makes room in the spool: takes the steps that `retention` chose, and leaves a gap for each stretch.

Rows that were handed to the forwarder are spared at first, since the hub may hold them. When nothing
else is left, the oldest of them go too, with the reason `unconfirmed`: the hub counts such a gap only
for the rows that it does not hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contract.status import Lane, RowClass
from edge_agent.outbox.database import PAGE_BYTES
from edge_agent.outbox.gaps import Dropped
from edge_agent.outbox.records import CLASS_OF, CODE_OF, COLUMNS
from edge_agent.outbox.retention import (
    CHUNK_ROWS,
    SOFT_LIMIT,
    Cut,
    moved,
    next_cut,
    over_budget,
)
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


def make_room(tx: Transaction, *, need_bytes: int) -> bool:
    """Sheds until `need_bytes` fit below the soft limit, or nothing more may be given up.

    False when it is still too full. Bounded: one call takes at most a few hundred short steps.
    """
    limit = int(tx.db.page_limit * PAGE_BYTES * SOFT_LIMIT)
    while not (fits := tx.db.pages_used() * PAGE_BYTES + need_bytes <= limit):
        if not trim_due(tx.head):
            break
        trim_slice(tx)
    if fits:
        return True
    for confirmed in (True, False):
        search = _Search(tx, confirmed=confirmed, exhausted=set())
        for _ in range(_MAX_STEPS):
            cut = search.next()
            if cut is None:
                break
            search.take(cut)
            if tx.db.pages_used() * PAGE_BYTES + need_bytes <= limit:
                return True
    return False


def keep_budgets(tx: Transaction) -> None:
    """Sheds from classes that hold more than their own share of the quota."""
    held = {kind: entry.bytes for kind, entry in tx.head.classes.items()}
    total = tx.db.page_limit * PAGE_BYTES
    for kind in over_budget(held, total_bytes=total):
        search = _Search(tx, confirmed=True, exhausted=set())
        for _ in range(_MAX_STEPS):
            if not over_budget({kind: tx.head.classes[kind].bytes}, total_bytes=total):
                break
            cut = search.next(only=kind)
            if cut is None:
                break
            search.take(cut)


def expire(tx: Transaction, *, max_age_s: float) -> int:
    """Drops a chunk of the raw rows older than `max_age_s` of the spool's own age; returns how many."""
    head = tx.head
    base = max(head.lanes[Lane.TEL].first - 1, tx.handed[Lane.TEL])
    rows = tx.db.rows(
        f"SELECT seq, age FROM tel WHERE seq > ? AND seq <= ? AND kind = {CODE_OF[RowClass.RAW]}"
        " ORDER BY seq LIMIT ?",
        (base, head.floor, CHUNK_ROWS),
    )
    old = [seq for seq, age in rows if age < tx.moment.age_s - max_age_s]
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


def _drop_oldest(tx: Transaction, kind: RowClass, *, spare_handed: bool, reason: str) -> int:
    tx.flush()
    lane = kind.lane
    rows = tx.db.rows(
        f"SELECT {_META} FROM {lane} WHERE kind = {CODE_OF[kind]} AND seq > ? ORDER BY seq LIMIT ?",
        (tx.handed[lane] if spare_handed else tx.head.lanes[lane].applied, CHUNK_ROWS),
    )
    victims = victims_of(rows, CLASS_OF)
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


def _mean_cost(victims: list[Victim]) -> float:
    return sum(row.cost for row in victims) / len(victims)
