"""The outbox for a person who looks: lanes, classes against their budgets, what was set aside. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from contract.status import Lane, RowClass
from edge_agent.outbox.dead_letters import DeadLetter
from edge_agent.outbox.head import Head
from edge_agent.outbox.retention import Budgets
from edge_agent.types import JsonObject, OutboxState


def inspection(
    head: Head,
    state: OutboxState,
    dead: Sequence[DeadLetter],
    *,
    budgets: Budgets,
    limit_bytes: int,
    now_s: float,
) -> JsonObject:
    """Everything that `edge-agent outbox` shows. Ages are by the wall clock, `now_s`."""
    return {
        "epoch": head.epoch,
        "fault": state.fault,
        "bytes": state.bytes,
        "quota_bytes": state.quota_bytes,
        "limit_bytes": min(limit_bytes, state.quota_bytes),
        "lanes": {lane.value: _lane(state, lane, now_s) for lane in Lane},
        "classes": {
            kind.value: {
                "rows": held.rows,
                "readings": held.readings,
                "bytes": held.bytes,
                "budget_bytes": _share(budgets.shares, kind, state.quota_bytes),
                "max_age_s": budgets.max_age_s.get(kind),
                "shed_rows": held.shed_rows,
                "shed_readings": held.shed_readings,
            }
            for kind, held in head.classes.items()
        },
        "dead_letters_ever": head.dead_letters,
        "dead_letters": [{**one._asdict(), "age_s": now_s - one.created_s} for one in dead],
    }


def _lane(state: OutboxState, lane: Lane, now_s: float) -> JsonObject:
    one = state.lanes[lane]
    oldest_s = None if one.oldest_s is None else now_s - one.oldest_s
    return {
        **asdict(one),
        "oldest_s": oldest_s,
        "waiting_rows": max(one.next_seq - 1 - one.applied, 0),
    }


def _share(shares: Mapping[RowClass, float], kind: RowClass, quota_bytes: int) -> int | None:
    return int(shares[kind] * quota_bytes) if kind in shares else None
