"""Recorded messages as a source: the same batches every time (format: `sources/recording.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from edge_agent.sources.recording import Recorded, read_recordings
from edge_agent.types import MessageBatch

SESSION = "replay"


class ReplaySource:
    """A Source of recorded messages in batches of a fixed size; ends with the recording.

    Two replays of the same files give equal batches, whatever the machine does. `acknowledge` does
    nothing. Raises RecordingError at a broken line, after all messages before its batch.
    """

    def __init__(self, paths: Iterable[Path], *, batch_messages: int = 256) -> None:
        if batch_messages < 1:
            raise ValueError(f"batch_messages is {batch_messages}; it must be at least 1")
        self._batch_messages = batch_messages
        self._messages = read_recordings(paths)
        self._last_mid = 0

    async def next_batch(self) -> MessageBatch | None:
        """The next messages; None at the end. Files are read off the event loop."""
        return await asyncio.to_thread(self.next_batch_now)

    def next_batch_now(self) -> MessageBatch | None:
        """As `next_batch`, for a caller without an event loop."""
        messages = list(islice(self._messages, self._batch_messages))
        if not messages:
            return None
        times_s = np.array([message.time_s for message in messages], dtype=np.float64)
        return MessageBatch(
            session=SESSION,
            topics=[message.topic for message in messages],
            payloads=[message.payload for message in messages],
            qos=[message.qos for message in messages],
            mids=list(self._mids(messages)),
            dup=[False] * len(messages),
            retained=[message.retained for message in messages],
            arrivals_s=times_s,
            arrivals_ns=np.rint(times_s * 1e9).astype(np.int64),
        )

    def acknowledge(self, batch: MessageBatch) -> None:
        """Nobody waits for it."""

    def _mids(self, messages: list[Recorded]) -> Iterator[int]:
        for message in messages:
            if message.qos:
                self._last_mid = self._last_mid % 65535 + 1
                yield self._last_mid
            else:
                yield 0
