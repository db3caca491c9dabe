"""Deletes what the hub's database holds and nobody on the device needs, in slices."""

from __future__ import annotations

from typing import Final

from contract.status import Lane
from edge_agent.outbox.head import Head
from edge_agent.outbox.records import CLASS_OF
from edge_agent.outbox.transaction import Transaction, victims_of

SLICE_ROWS: Final = 2000


def trim_limit(head: Head, lane: Lane) -> int:
    """The last number of a lane that the hub holds and nobody on the device needs."""
    applied = head.lanes[lane].applied
    return min(applied, head.floor) if lane is Lane.TEL else applied


def trim_due(head: Head) -> bool:
    """Whether rows lie there that the hub holds and nobody needs."""
    return any(0 < mark.first <= trim_limit(head, lane) for lane, mark in head.lanes.items())


def trim_slice(tx: Transaction) -> None:
    """Deletes one slice of each lane, and the gap records' memory that is not needed any more."""
    for lane in Lane:
        limit = trim_limit(tx.head, lane)
        if not 0 < tx.head.lanes[lane].first <= limit:
            continue
        rows = tx.db.rows(
            "SELECT seq, kind, readings, length(body) + length(model)"
            f" FROM {lane} WHERE seq <= ? ORDER BY seq LIMIT {SLICE_ROWS}",
            (limit,),
        )
        tx.db.run(f"DELETE FROM {lane} WHERE seq <= ?", (rows[-1][0] if rows else 0,))
        tx.count_out(lane, victims_of(rows, CLASS_OF), shed=False)
        tx.find_first(lane)
        tx.db.run("DELETE FROM gaps WHERE lane = ? AND last <= ?", (lane, limit))
