"""Fills a device's outbox with a backlog, with the agent's own code and far faster than sensors could.

The streams are `sim/0` … and have the channels of `edge-agent simulate --synthetic`, so that an agent with
the drills' configuration takes them for its own. Rounds of checkpoints are closed when the agent would
close them: what lies beyond the last one is replayed at the next boot.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.waves import CHANNELS, waves
from edge_agent.clock import SystemClock
from edge_agent.outbox.store import Outbox
from edge_agent.pipeline.telemetry import raw_rows
from edge_agent.readings.registry import Registry, make_kind
from edge_agent.settings import OutboxSettings
from edge_agent.settings.streams import ChannelSettings, StreamSettings
from edge_agent.types import Commit, NewRow, ReadingBatch, Round

STREAMS: Final = 4
STEP_S: Final = 0.01
_COMMIT_ROWS: Final = 256


@dataclass(frozen=True, slots=True)
class Filled:
    """What lies in the outbox; reading k is of stream k modulo `STREAMS`."""

    rows: int
    times_s: NDArray[np.float64]
    seconds: float

    @property
    def readings(self) -> int:
        """How many readings that are."""
        return len(self.times_s)

    def ledger(self) -> dict[str, NDArray[np.float64]]:
        """The times of each stream's readings, in order."""
        return {f"sim/{at}": self.times_s[at::STREAMS] for at in range(STREAMS)}


async def fill(folder: Path, *, sizes: Sequence[int], max_bytes: int) -> Filled:
    """Stores one raw row of each size; returns once all of them are on the disk and the file is closed."""
    began_s = time.monotonic()
    total = sum(sizes)
    times_s = np.round(time.time() - 1.0 + STEP_S * (np.arange(total) - total), 6)
    settings = OutboxSettings(max_bytes=max_bytes)
    rows = backlog_rows(sizes, times_s)
    clock = await asyncio.to_thread(SystemClock)
    outbox = await Outbox.open(folder, settings=settings, clock=clock)
    try:
        await outbox.recover()
        while chunk := await asyncio.to_thread(_some, rows):
            due = outbox.checkpoint_due()
            await outbox.submit(Commit(tuple(chunk), round=Round.WHOLE if due else Round.NONE))
    finally:
        await outbox.close()
    return Filled(len(sizes), times_s, time.monotonic() - began_s)


def backlog_rows(sizes: Sequence[int], times_s: NDArray[np.float64]) -> Iterator[NewRow]:
    """The rows of an agent that took so many readings at once each time."""
    kind = make_kind(
        0,
        StreamSettings(
            name="{0}/{1}",
            topic="sim/+",
            channels={name: ChannelSettings() for name in CHANNELS},
        ),
        None,
    )
    registry = Registry([kind], max_streams=STREAMS)
    for number in range(STREAMS):
        registry.open(0, f"sim/{number}")
    table, stamp = waves(), SystemClock().stamp()
    begin = 0
    for size in sizes:
        index = np.arange(begin, begin + size)
        begin += size
        batch = ReadingBatch(
            kind=0,
            slots=(index % STREAMS).astype(np.int32),
            messages=np.zeros(size, dtype=np.int32),
            times_s=times_s[index],
            arrivals_s=times_s[index],
            arrivals_ns=np.zeros(size, dtype=np.int64),
            values=table[index % len(table)],
            flags=np.zeros(size, dtype=np.uint8),
        )
        yield from raw_rows([batch], registry, stamp)


def _some(rows: Iterator[NewRow]) -> list[NewRow]:
    return list(islice(rows, _COMMIT_ROWS))
