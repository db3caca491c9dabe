"""Messages that have arrived and were not taken yet: columns, bounded in number and bytes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from edge_agent.types import F64, Clock, MessageBatch


@dataclass(frozen=True, slots=True)
class ReceivedBatch(MessageBatch):
    """A batch that knows on which connection it came, and the receipt of each message."""

    connection: int = 0
    receipts: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Columns:
    connection: int
    wall_s: float
    mono_ns: int
    new_session: bool
    count: int = 0
    payload_bytes: int = 0
    topics: list[str | None] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    qos: list[int] = field(default_factory=list)
    mids: list[int] = field(default_factory=list)
    dup: list[bool] = field(default_factory=list)
    retained: list[bool] = field(default_factory=list)
    receipts: list[int] = field(default_factory=list)
    arrivals_ns: list[int] = field(default_factory=list)


class Inbox:
    """Keeps order; never holds more than one message beyond its bounds, if its owner heeds `full`.

    A batch has at most `max_batch` messages, all of one connection.
    """

    def __init__(
        self, session: str, *, clock: Clock, max_batch: int, max_messages: int, max_bytes: int
    ) -> None:
        self._session = session
        self._clock = clock
        self._max_batch = max_batch
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._connection = 0
        self._new_session = False
        self._full_chunks: deque[_Columns] = deque()
        self._filling: _Columns | None = None
        self.messages = 0
        self.payload_bytes = 0

    @property
    def full(self) -> bool:
        """Whether reading should stop."""
        return self.messages >= self._max_messages or self.payload_bytes >= self._max_bytes

    @property
    def roomy(self) -> bool:
        """Whether reading may go on after it stopped: at most half of the bounds are used."""
        return 2 * self.messages <= self._max_messages and 2 * self.payload_bytes <= self._max_bytes

    def begin_connection(self, connection: int, *, new_session: bool = False) -> None:
        """What is appended from now on came on this connection, perhaps of a session begun anew."""
        self._connection = connection
        self._close_chunk()
        self._new_session = new_session

    def append(
        self,
        topic: str | None,
        payload: bytes,
        *,
        qos: int,
        mid: int,
        dup: bool,
        retained: bool,
        receipt: int = 0,
    ) -> None:
        """Adds one message that arrives now."""
        now_ns = self._clock.mono_ns()
        chunk = self._filling
        if chunk is None:
            chunk = self._filling = _Columns(
                self._connection, self._clock.wall_s(), now_ns, self._new_session
            )
            self._new_session = False
        chunk.topics.append(topic)
        chunk.payloads.append(payload)
        chunk.qos.append(qos)
        chunk.mids.append(mid)
        chunk.dup.append(dup)
        chunk.retained.append(retained)
        chunk.receipts.append(receipt)
        chunk.arrivals_ns.append(now_ns)
        size = len(payload)
        chunk.count += 1
        chunk.payload_bytes += size
        self.messages += 1
        self.payload_bytes += size
        if chunk.count >= self._max_batch:
            self._close_chunk()

    def take(self) -> ReceivedBatch | None:
        """The oldest messages, at most `max_batch`; None when there are none."""
        if self._full_chunks:
            chunk = self._full_chunks.popleft()
        elif self._filling is not None:
            chunk, self._filling = self._filling, None
        else:
            return None
        self.messages -= chunk.count
        self.payload_bytes -= chunk.payload_bytes
        arrivals_ns = np.array(chunk.arrivals_ns, dtype=np.int64)
        arrivals_s: F64 = np.asarray(
            chunk.wall_s + (arrivals_ns - chunk.mono_ns) * 1e-9, dtype=np.float64
        )
        return ReceivedBatch(
            session=self._session,
            topics=chunk.topics,
            payloads=chunk.payloads,
            qos=chunk.qos,
            mids=chunk.mids,
            dup=chunk.dup,
            retained=chunk.retained,
            arrivals_s=arrivals_s,
            arrivals_ns=arrivals_ns,
            new_session=chunk.new_session,
            connection=chunk.connection,
            receipts=chunk.receipts,
        )

    def _close_chunk(self) -> None:
        if self._filling is not None:
            self._full_chunks.append(self._filling)
            self._filling = None
