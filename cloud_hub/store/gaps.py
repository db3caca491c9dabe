"""Counts a gap by what is in fact missing: what the device declared, less what is here all the same.

A device that is full gives up rows which it had sent and nobody had confirmed. It cannot know which of them
arrived; the hub does, now or when they arrive later. So each gap record keeps what was declared, and how many
rows and readings of it are held. A row that is held and that several records cover was given up by one of
them, the first: thinning goes from every 2nd row kept to every 4th and so on, and drops the rest last; the
loss of a whole outbox comes after everything that this outbox declared itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Table, bindparam, func, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_hub.store.marks import LaneKey
from cloud_hub.store.tables import escalations, events, gaps, rollups, telemetry
from contract.status import Lane

Span = tuple[int, int]
MAX_GAPS: Final = 4096
"""Records of one lane that are looked at together; of more the lowest."""
MAX_COUNTED: Final = 256
"""Records of one lane that are counted in one transaction; of more the rest stand as declared, not exact."""
CHUNK: Final = 10_000
_TABLES: Final[Mapping[str, tuple[Table, ...]]] = {
    Lane.TEL: (telemetry, rollups),
    Lane.EVT: (events, gaps),
    Lane.BULK: (escalations,),
}


def gap_values(
    origin: Mapping[str, Any],
    covered: LaneKey,
    rows: tuple[int, int, int],
    *,
    readings: int,
    reason: str,
    exact: bool,
) -> dict[str, Any]:
    """The columns of a record that came as the row `origin` and covers `rows` (first, last, stride)."""
    return {
        **origin,
        "gap_epoch": covered[1],
        "gap_lane": covered[2],
        "first": rows[0],
        "last": rows[1],
        "stride": rows[2],
        "readings": readings,
        "declared": readings,
        "held_rows": 0,
        "held_readings": 0,
        "exact": exact,
        "reason": reason,
    }


@dataclass(frozen=True, slots=True)
class _Record:
    key: tuple[str, str, int]
    """Epoch, lane and number of the row that the record came as."""
    first: int
    last: int
    stride: int
    own: bool
    """Whether the record is of the same epoch as what it covers."""

    def order(self) -> tuple[bool, bool, int, tuple[str, str, int]]:
        """Of records that cover the same row, the lowest gave it up."""
        return (not self.own, self.stride <= 1, self.stride, self.key)

    def covers(self, seqs: NDArray[np.int64]) -> NDArray[np.bool_]:
        inside = (seqs >= self.first) & (seqs <= self.last)
        return inside if self.stride <= 1 else inside & (seqs % self.stride != 0)


async def count_gaps(connection: AsyncConnection, changed: Mapping[LaneKey, Iterable[Span]]) -> int:
    """Counts anew every record that covers rows in these stretches; returns how many were looked at."""
    looked_at = 0
    for key, spans in changed.items():
        known = list(spans)
        if not known:
            continue
        low, high = min(first for first, _ in known), max(last for _, last in known)
        records = await _records(connection, key, low, high)
        affected = [each for each in records if _touches(each, known)]
        looked_at += len(affected)
        await _count(connection, key, affected, records)
    return looked_at


def _touches(record: _Record, spans: Sequence[Span]) -> bool:
    return any(record.first <= last and first <= record.last for first, last in spans)


async def _records(connection: AsyncConnection, key: LaneKey, low: int, high: int) -> list[_Record]:
    c = gaps.c
    statement = (
        select(c.epoch, c.lane, c.seq, c.first, c.last, c.stride)
        .where(c.device == key[0], c.gap_epoch == key[1], c.gap_lane == key[2])
        .where(c.first <= high, c.last >= low)
        .order_by(c.first)
        .limit(MAX_GAPS)
    )
    return [
        _Record((epoch, lane, seq), first, last, stride, own=epoch == key[1])
        for epoch, lane, seq, first, last, stride in await connection.execute(statement)
    ]


async def _count(
    connection: AsyncConnection, key: LaneKey, affected: list[_Record], records: list[_Record]
) -> None:
    changes = []
    records = sorted(records, key=_Record.order)
    for record in affected[:MAX_COUNTED]:
        before = records[: records.index(record)]
        rows, readings = await _held(connection, key, record, before)
        changes.append({**_key(key, record), "rows": rows, "held": readings})
    if not changes:
        return
    c = gaps.c
    origin = (
        c.device == bindparam("d"),
        c.epoch == bindparam("e"),
        c.lane == bindparam("l"),
        c.seq == bindparam("s"),
    )
    if uncounted := [_key(key, record) for record in affected[MAX_COUNTED:]]:
        await connection.execute(update(gaps).where(*origin).values(exact=False), uncounted)
    held = bindparam("held", type_=c.held_readings.type)
    largest = func.greatest if connection.dialect.name == "postgresql" else func.max
    lost = largest(c.declared - held, 0)
    statement = (
        update(gaps)
        .where(*origin)
        .values(held_rows=bindparam("rows"), held_readings=held, readings=lost)
    )
    await connection.execute(statement, changes)


def _key(key: LaneKey, record: _Record) -> dict[str, Any]:
    epoch, lane, seq = record.key
    return {"d": key[0], "e": epoch, "l": lane, "s": seq}


async def _held(
    connection: AsyncConnection, key: LaneKey, record: _Record, before: list[_Record]
) -> tuple[int, int]:
    """How many rows and readings that a record gave up are here."""
    rows = readings = 0
    for table in _TABLES.get(key[2], ()):
        async with connection.stream(_held_rows(table, key, record)) as found:
            async for chunk in found.partitions(CHUNK):
                seqs = np.fromiter((seq for seq, _ in chunk), np.int64, len(chunk))
                counts = np.fromiter((count for _, count in chunk), np.int64, len(chunk))
                mine = np.ones(len(seqs), dtype=np.bool_)
                for each in before:
                    mine &= ~each.covers(seqs)
                rows += int(mine.sum())
                readings += int(counts[mine].sum())
    return rows, readings


def _held_rows(table: Table, key: LaneKey, record: _Record) -> Any:
    c = table.c
    counted = func.sum(c.count) if table is telemetry else literal(0)
    statement = select(c.seq, counted).where(c.device == key[0], c.epoch == key[1])
    if "lane" in c:
        statement = statement.where(c.lane == key[2])
    statement = statement.where(c.seq >= record.first, c.seq <= record.last)
    if record.stride > 1:
        statement = statement.where(c.seq % record.stride != 0)
    return statement.group_by(c.seq) if table is telemetry else statement
