"""Accepted readings to `raw` rows of the outbox, and back at boot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from contract.encoding import MAX_READINGS_PER_ROW, encode
from contract.messages import Clock, RawRow, ReadingGroup
from contract.status import RowClass
from edge_agent.readings.registry import Kind, Registry
from edge_agent.types import I64, NewRow, ReadingBatch

MAX_ROW_BYTES: Final = 160 * 1024
"""A row must fit into a message (240 KiB), beside others and the headers."""
GROUP_BYTES: Final = 160
"""What a group needs beside its columns and names."""


def raw_rows(batches: list[ReadingBatch], registry: Registry, clock: Clock) -> Iterator[NewRow]:
    """Rows of at most 256 readings and `MAX_ROW_BYTES` each; a stream's readings keep their order.

    A single reading that is larger has a row of its own.
    """
    groups: list[ReadingGroup] = []
    filled = used = 0
    for batch in batches:
        kind = registry.kinds[batch.kind]
        declared = sum(len(text.encode()) + 4 for text in (*kind.channels, *kind.units))
        each = 8 * len(kind.channels) + (17 if batch.own_s is None else 25)
        order = np.argsort(batch.slots, kind="stable")
        ordered = batch.slots[order]
        edges = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1], True])
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            stream = registry.name(batch.kind, int(ordered[start]))
            fixed = GROUP_BYTES + declared + len(stream.encode())
            begin = start
            while begin < end:
                room = min(MAX_READINGS_PER_ROW - filled, (MAX_ROW_BYTES - used - fixed) // each)
                if room < 1 and groups:
                    yield _row(groups, filled, clock)
                    groups, filled, used = [], 0, 0
                    continue
                take = order[begin : min(end, begin + max(1, room))]
                groups.append(_group(batch, take, stream, kind, first=filled))
                filled += len(take)
                used += fixed + each * len(take)
                begin += len(take)
    if groups:
        yield _row(groups, filled, clock)


def _group(batch: ReadingBatch, take: I64, stream: str, kind: Kind, *, first: int) -> ReadingGroup:
    return ReadingGroup(
        stream=stream,
        first=first,
        count=len(take),
        channels=kind.channels,
        units=kind.units,
        times=batch.times_s[take].tobytes(),
        arrivals=batch.arrivals_s[take].tobytes(),
        values=batch.values[take].tobytes(),
        flags=batch.flags[take].tobytes(),
        own=_own(batch, take),
    )


def _own(batch: ReadingBatch, take: I64) -> bytes:
    """The column `own`; empty where none of these readings has one."""
    if batch.own_s is None or np.isnan(own_s := batch.own_s[take]).all():
        return b""
    return own_s.tobytes()


def _row(groups: list[ReadingGroup], readings: int, clock: Clock) -> NewRow:
    return NewRow(RowClass.RAW, encode(RawRow(clock, tuple(groups))), readings)


def group_batch(group: ReadingGroup, *, kind: int, slot: int) -> ReadingBatch:
    """The readings of one stored group, as they were accepted."""
    count = group.count
    return ReadingBatch(
        kind=kind,
        slots=np.full(count, slot, dtype=np.int32),
        messages=np.zeros(count, dtype=np.int32),
        times_s=np.frombuffer(group.times, dtype="<f8"),
        arrivals_s=np.frombuffer(group.arrivals, dtype="<f8"),
        arrivals_ns=np.zeros(count, dtype=np.int64),
        values=np.frombuffer(group.values, dtype="<f8").reshape(count, -1),
        flags=np.frombuffer(group.flags, dtype=np.uint8),
        own_s=np.frombuffer(group.own, dtype="<f8") if group.own else None,
    )
