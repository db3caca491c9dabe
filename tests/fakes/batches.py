"""Batches as sources and the intake make them, from plain lists."""

import itertools
import json
from collections.abc import Sequence

import numpy as np

from edge_agent.types import MessageBatch, ReadingBatch

START_S = 1_796_000_000.0
"""30 November 2026: later than the build date, so that times are plausible."""


def message_batch(
    items: Sequence[tuple[str | None, object]],
    *,
    at_s: float = START_S,
    step_s: float = 1.0,
    session: str = "twin",
    qos: int = 1,
    first_mid: int = 1,
    dup: bool = False,
    retained: bool = False,
) -> MessageBatch:
    """One message for each (topic, payload); a payload that is not bytes is written as JSON."""
    count = len(items)
    arrivals = at_s + step_s * np.arange(count, dtype=np.float64)
    return MessageBatch(
        session=session,
        topics=[topic for topic, _ in items],
        payloads=[
            given if isinstance(given, bytes) else json.dumps(given).encode() for _, given in items
        ],
        qos=[qos] * count,
        mids=[first_mid + n if qos else 0 for n in range(count)],
        dup=[dup] * count,
        retained=[retained] * count,
        arrivals_s=arrivals,
        arrivals_ns=np.rint(arrivals * 1e9).astype(np.int64),
    )


def reading_batch(
    slots: Sequence[int], values: object, *, kind: int = 0, times_s: object = None
) -> ReadingBatch:
    """Readings of streams by slot; values [n, c]; by default a second apart."""
    count = len(slots)
    times = START_S + np.arange(count) if times_s is None else np.asarray(times_s)
    table = np.asarray(values, dtype=np.float64)
    table = table if table.ndim == 2 else table.reshape(count, 1)
    return ReadingBatch(
        kind=kind,
        slots=np.asarray(slots, dtype=np.int32),
        messages=np.arange(count, dtype=np.int32),
        times_s=times.astype(np.float64),
        arrivals_s=times.astype(np.float64),
        arrivals_ns=np.rint(times * 1e9).astype(np.int64),
        values=table,
        flags=np.zeros(count, dtype=np.uint8),
    )


def cut(batch: ReadingBatch, edges: Sequence[int]) -> list[ReadingBatch]:
    """The same readings in several batches that end at the edges."""
    bounds = [0, *sorted({min(edge, len(batch)) for edge in edges}), len(batch)]
    return [
        ReadingBatch(
            kind=batch.kind,
            slots=batch.slots[a:b],
            messages=batch.messages[a:b],
            times_s=batch.times_s[a:b],
            arrivals_s=batch.arrivals_s[a:b],
            arrivals_ns=batch.arrivals_ns[a:b],
            values=batch.values[a:b],
            flags=batch.flags[a:b],
        )
        for a, b in itertools.pairwise(bounds)
    ]
