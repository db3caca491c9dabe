"""The outbox at a glance, from its counters. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from contract.status import Lane
from edge_agent.outbox.head import Head
from edge_agent.types import LaneState, OutboxState


def outbox_state(
    head: Head, *, sent: Mapping[Lane, int], quota_bytes: int, commits: int, fault: str
) -> OutboxState:
    """The state that the counters tell; costs no query."""
    lanes: dict[Lane, LaneState] = {}
    for lane, mark in head.lanes.items():
        held = [entry for kind, entry in head.classes.items() if kind.lane is lane]
        lanes[lane] = LaneState(
            next_seq=mark.next_seq,
            sent=sent[lane],
            applied=mark.applied,
            first_kept=mark.first or mark.next_seq,
            rows=sum(entry.rows for entry in held),
            readings=sum(entry.readings for entry in held),
            bytes=sum(entry.bytes for entry in held),
            oldest_s=mark.oldest_s,
        )
    shed: dict[str, int] = {}
    for kind, entry in head.classes.items():
        if entry.shed_rows:
            shed[f"{kind}_rows"] = entry.shed_rows
            shed[f"{kind}_readings"] = entry.shed_readings
    return OutboxState(
        epoch=head.epoch,
        lanes=lanes,
        bytes=sum(lane.bytes for lane in lanes.values()),
        quota_bytes=quota_bytes,
        shed=shed,
        dead_letters=head.dead_letters,
        commits=commits,
        fault=fault,
    )
