"""Rows that can never be sent: kept for a person to look at, a bounded number of them."""

from __future__ import annotations

from typing import Final, NamedTuple

from contract.messages import Gap
from contract.status import Lane, RowClass
from edge_agent.outbox.database import Database
from edge_agent.outbox.records import CLASS_OF, COLUMNS, ROW_BYTES, meta_is_sound, unseal
from edge_agent.outbox.transaction import Transaction, Victim

MAX_DEAD_LETTERS: Final = 256
_MAX_BODY_BYTES: Final = 16 * 1024


class DeadLetter(NamedTuple):
    """One row that was set aside: which, when, why, and how large it was as far as it was kept."""

    lane: str
    seq: int
    kind: str
    created_s: float
    reason: str
    kept_bytes: int


def listed(db: Database) -> list[DeadLetter]:
    """The dead letters, oldest first."""
    found = db.rows(
        "SELECT lane, seq, kind, created, reason, length(body) FROM dead ORDER BY id LIMIT ?",
        (MAX_DEAD_LETTERS,),
    )
    return [DeadLetter(*row) for row in found]


def bury(tx: Transaction, lane: Lane, seq: int, *, reason: str) -> bool:
    """Moves one row to the dead letters and leaves its gap; False when there is no such row.

    A row that the hub holds already leaves none. A row of which even the description is damaged is counted with what its neighbours tell.
    """
    tx.flush()
    found = tx.db.rows(f"SELECT {COLUMNS} FROM {lane} WHERE seq = ?", (seq,))
    if not found:
        return False
    row = found[0]
    sound = meta_is_sound(row)
    kind = CLASS_OF[row[1]] if sound else _most_common(lane)
    told = row[5] if sound else _told_by_neighbours(tx, lane, seq)
    readings = told or 0
    body = row[9] if isinstance(row[9], bytes) else repr(row[9]).encode()
    number = tx.head.dead_letters + 1
    tx.db.run(
        "INSERT INTO dead (id, lane, seq, kind, created, reason, body) VALUES (?,?,?,?,?,?,?)",
        (number, lane, seq, kind, tx.moment.wall_s, reason, body[:_MAX_BODY_BYTES]),
    )
    tx.db.run("DELETE FROM dead WHERE id <= ?", (number - MAX_DEAD_LETTERS,))
    tx.head.dead_letters = number
    if unseal(row) is None:
        tx.head.bad_rows += 1
    cost = len(body) + (len(row[6]) if sound else 0) + ROW_BYTES
    lost = seq > tx.head.lanes[lane].applied
    tx.remove(lane, [Victim(seq, kind, readings, cost)], shed=lost)
    if lost:
        tx.leave_gap(Gap(lane, seq, seq, 1, readings, reason, exact=told is not None))
    return True


def _most_common(lane: Lane) -> RowClass:
    return {Lane.EVT: RowClass.VERDICT, Lane.BULK: RowClass.ESCALATION}.get(lane, RowClass.RAW)


def _told_by_neighbours(tx: Transaction, lane: Lane, seq: int) -> int | None:
    """The readings of a damaged row, from its neighbours alone; None where they do not tell."""
    before = tx.db.rows(f"SELECT before + readings FROM {lane} WHERE seq = ?", (seq - 1,))
    after = tx.db.rows(f"SELECT before FROM {lane} WHERE seq = ?", (seq + 1,))
    low = before[0][0] if before else (0 if seq == 1 else None)
    high = after[0][0] if after else None
    if high is None and seq + 1 == tx.head.lanes[lane].next_seq:
        high = tx.head.lanes[lane].total
    if isinstance(low, int) and isinstance(high, int) and high >= low:
        return high - low
    return None
