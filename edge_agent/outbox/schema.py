"""The tables of the two files.

`spool.db` holds everything that one commit changes together, since a transaction over two files in
WAL mode is not whole after a power cut: rows, packets, checkpoints, pending verdicts, the counters.
`state.db` holds what must outlive a lost spool: identity, per lane which numbers were handed out, and
(`given`) how much the spool held, so that its loss can be declared.
"""

from __future__ import annotations

from typing import Final

from contract.status import Lane, RowClass
from edge_agent.outbox.records import CODE_OF, COLUMNS

_LANE: Final = """
CREATE TABLE IF NOT EXISTS {lane} (seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL,
  created REAL NOT NULL, age REAL NOT NULL, before INTEGER NOT NULL, readings INTEGER NOT NULL,
  model TEXT NOT NULL, meta_sum INTEGER NOT NULL, body_sum INTEGER NOT NULL, body BLOB NOT NULL);
"""
_SPOOL: Final = """
CREATE INDEX IF NOT EXISTS evt_kind ON evt (kind);
CREATE INDEX IF NOT EXISTS tel_rollup ON tel (kind) WHERE kind = {rollup};
CREATE TABLE IF NOT EXISTS head (id INTEGER PRIMARY KEY, body BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS gaps (seq INTEGER PRIMARY KEY, lane TEXT NOT NULL, first INTEGER NOT NULL,
  last INTEGER NOT NULL, stride INTEGER NOT NULL, readings INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS dead (id INTEGER PRIMARY KEY, lane TEXT NOT NULL, seq INTEGER NOT NULL,
  kind TEXT NOT NULL, created REAL NOT NULL, reason TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS packets (id INTEGER PRIMARY KEY, session TEXT NOT NULL,
  count INTEGER NOT NULL, sum INTEGER NOT NULL, mids BLOB NOT NULL, hashes BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS stream_state (stream TEXT PRIMARY KEY, seq INTEGER NOT NULL,
  sum INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS pending (id TEXT PRIMARY KEY, sum INTEGER NOT NULL,
  body BLOB NOT NULL);
"""

SPOOL_SCHEMA: Final = "".join(_LANE.format(lane=lane) for lane in Lane) + _SPOOL.format(
    rollup=CODE_OF[RowClass.ROLLUP]
)

SPOOL_COLUMNS: Final = dict.fromkeys(Lane, COLUMNS) | {
    "head": "id, body, sum",
    "gaps": "seq, lane, first, last, stride, readings, reason",
    "dead": "id, lane, seq, kind, created, reason, body",
    "packets": "id, session, count, sum, mids, hashes",
    "stream_state": "stream, seq, sum, body",
    "pending": "id, sum, body",
}
"""What each table must have; a file where one lacks something is of another schema."""

STATE_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS identity (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS marks (lane TEXT PRIMARY KEY, epoch TEXT NOT NULL,
  handed INTEGER NOT NULL, sent INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS given (lane TEXT PRIMARY KEY, epoch TEXT NOT NULL,
  next_seq INTEGER NOT NULL, applied INTEGER NOT NULL, readings INTEGER NOT NULL,
  total INTEGER NOT NULL, exact INTEGER NOT NULL);
"""
