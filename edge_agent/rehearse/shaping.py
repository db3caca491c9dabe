"""What a bad link does to bytes that arrive in the end: later, slower, in small pieces, never out of order."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from dataclasses import dataclass
from typing import Final

MAX_HELD_BYTES: Final = 4 * 1024 * 1024
"""What may be under way in one direction; then reading stops, as in a full router."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One direction's delay, pace and grain; 0 means none of it.

    Each piece is delivered `latency_s` plus up to `jitter_s` after it was read, never before an earlier
    one; `bytes_per_s` bounds the pace; `slice_bytes` is the size of the pieces that are written.
    """

    latency_s: float = 0.0
    jitter_s: float = 0.0
    bytes_per_s: float = 0.0
    slice_bytes: int = 0


PLAIN: Final = Shape()


class DelayLine:
    """Hands bytes to a writer in order, each when it is due. Bounded by `MAX_HELD_BYTES`."""

    def __init__(self, writer: asyncio.StreamWriter, *, rng: random.Random) -> None:
        self._writer = writer
        self._rng = rng
        self._held: deque[tuple[float, bytes]] = deque()
        self._held_bytes = 0
        self._last_due_s = 0.0
        self._free_s = 0.0
        self._changed = asyncio.Event()

    async def put(self, data: bytes, *, shape: Shape) -> None:
        """Takes bytes that were read now; waits while too much is held. Raises OSError."""
        if shape is PLAIN and not self._held:
            self._writer.write(data)
            await self._writer.drain()
            return
        size = shape.slice_bytes or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            while self._held_bytes + len(piece) > MAX_HELD_BYTES and self._held:
                await self._wait(None)
            self._held.append((self._due_s(len(piece), shape), piece))
            self._held_bytes += len(piece)
        self._tell()

    async def flush(self) -> None:
        """Returns once all that was taken has been handed to the writer."""
        while self._held:
            await self._wait(None)

    async def run(self) -> None:
        """Delivers until cancelled. Raises OSError when the writer's end is gone."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._held:
                await self._wait(None)
                continue
            due_s, piece = self._held[0]
            if (ahead_s := due_s - loop.time()) > 0:
                await asyncio.sleep(ahead_s)
            self._writer.write(piece)
            await self._writer.drain()
            await asyncio.sleep(0)  # the piece leaves before the next one joins it
            self._held.popleft()
            self._held_bytes -= len(piece)
            self._tell()

    def _due_s(self, size: int, shape: Shape) -> float:
        now_s = asyncio.get_running_loop().time()
        self._free_s = max(self._free_s, now_s)
        if shape.bytes_per_s:
            self._free_s += size / shape.bytes_per_s
        delay_s = shape.latency_s + self._rng.random() * shape.jitter_s
        self._last_due_s = max(self._last_due_s, self._free_s + delay_s)
        return self._last_due_s

    async def _wait(self, timeout_s: float | None) -> None:
        async with asyncio.timeout(timeout_s):
            await self._changed.wait()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
