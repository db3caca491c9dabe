"""Values that stand for a running device where the reference shows what one says."""

from __future__ import annotations

from contract.status import Lane
from edge_agent.observe.broker_state import BrokerState
from edge_agent.types import LaneState, OutboxState

BROKER = BrokerState(
    name="skerry-pump-station@127.0.0.1:1883",
    url="mqtt://127.0.0.1:1883",
    connected=True,
    why="",
    since_s=0.0,
    connections=1,
    received=0,
    acknowledged=0,
    stale_acknowledgements=0,
    published=0,
    dropped=0,
    waiting=0,
    waiting_bytes=0,
    paused=False,
    refused_filters=(),
)
LANE = LaneState(
    next_seq=1, sent=0, applied=0, first_kept=1, rows=0, readings=0, bytes=0, oldest_s=None
)
OUTBOX = OutboxState(
    epoch="48fdec254edcbe2f",
    lanes=dict.fromkeys(Lane, LANE),
    bytes=81920,
    quota_bytes=512 * 1024 * 1024,
    shed={"raw_rows": 0, "raw_readings": 0},
    dead_letters=0,
    commits=0,
)
