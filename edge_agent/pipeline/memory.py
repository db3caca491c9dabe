"""What the device remembers of a stream, as one checkpoint: windows, baseline, history."""

from __future__ import annotations

import msgspec
import numpy as np

from contract.encoding import EncodingError, decode, encode
from edge_agent.inference.baseline import BaselineState
from edge_agent.pipeline.judging import KindJudge
from edge_agent.routing.episodes import StreamHistory

MAX_MEMORY_BYTES = 256 * 1024 * 1024
"""The longest window of the most channels; a checkpoint is our own, and it is checked by its sum."""


class StreamMemory(msgspec.Struct, frozen=True):
    """A stream's checkpoint; arrays are little-endian float64."""

    channels: tuple[str, ...]
    window: int
    number: int
    times: bytes
    values: bytes
    level: bytes
    spread: bytes
    seen: bytes
    history: StreamHistory
    table: str = ""
    """The name of the `[[stream]]` table that the stream is of."""


def remember(judge: KindJudge, slot: int, history: StreamHistory) -> bytes:
    """The checkpoint of one stream."""
    number, times, values = judge.rings.tail(slot)
    baseline = judge.baseline.state(slot)
    return encode(
        StreamMemory(
            channels=judge.kind.channels,
            window=judge.kind.window,
            number=number,
            times=times.tobytes(),
            values=values.tobytes(),
            level=baseline.level.tobytes(),
            spread=baseline.spread.tobytes(),
            seen=baseline.seen.tobytes(),
            history=history,
            table=judge.kind.settings.name,
        )
    )


def read_memory(body: bytes) -> StreamMemory | None:
    """A checkpoint's content, or None when it cannot be read or its columns are of unlike lengths."""
    try:
        memory = decode(body, StreamMemory, max_bytes=MAX_MEMORY_BYTES)
    except EncodingError:
        return None
    rows, rest = divmod(len(memory.times), 8)
    row = 8 * len(memory.channels)
    sound = (
        rest == 0
        and 0 <= rows <= memory.number
        and len(memory.values) == rows * row
        and len(memory.level) == len(memory.spread) == len(memory.seen) == row
    )
    return memory if sound and row else None


def restore(judge: KindJudge, slot: int, memory: StreamMemory) -> StreamHistory:
    """Sets one stream to its checkpoint; a window of another length keeps what fits of it."""
    channels = len(memory.channels)
    times = np.frombuffer(memory.times, dtype="<f8")[-judge.kind.window :]
    values = np.frombuffer(memory.values, dtype="<f8").reshape(-1, channels)[-judge.kind.window :]
    judge.rings.restore(slot, memory.number, times, values)
    judge.baseline.restore(
        slot,
        BaselineState(
            np.frombuffer(memory.level, dtype="<f8"),
            np.frombuffer(memory.spread, dtype="<f8"),
            np.frombuffer(memory.seen, dtype="<f8"),
        ),
    )
    return memory.history
