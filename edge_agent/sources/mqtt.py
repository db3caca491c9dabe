"""Messages from one or several broker sessions, as one source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from edge_agent.types import MessageBatch


class Session(Protocol):
    """What this source needs of a broker session."""

    @property
    def name(self) -> str:
        """The `session` of its batches."""

    @property
    def ended(self) -> bool:
        """Whether nothing can be taken any more."""

    def attach(self, wake: Callable[[], None]) -> None:
        """`wake` is to be called when there is something to take or there will be no more."""

    def take(self) -> MessageBatch | None:
        """All that has arrived; None when there is nothing now."""

    def acknowledge(self, batch: MessageBatch) -> None:
        """Lets the broker forget these messages."""


class MqttSource:
    """A Source: each batch comes from one session, sessions take turns.

    Order holds within a session. It ends once every session was stopped and emptied.
    """

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._sessions = list(sessions)
        self._by_name = {session.name: session for session in self._sessions}
        if len(self._by_name) != len(self._sessions):
            raise ValueError("two broker sessions have the same client id at the same broker")
        self._next = 0
        self._ready = asyncio.Event()
        for session in self._sessions:
            session.attach(self._ready.set)

    async def next_batch(self) -> MessageBatch | None:
        """All that has arrived at one session, at least one message; None at the end."""
        await asyncio.sleep(0)  # reading the sockets and everything else get their turn
        while True:
            self._ready.clear()
            batch = self._take()
            if batch is not None:
                return batch
            if all(session.ended for session in self._sessions):
                return None
            await self._ready.wait()

    def acknowledge(self, batch: MessageBatch) -> None:
        """Hands the acknowledgement to the session that the batch came from."""
        session = self._by_name.get(batch.session)
        if session is not None:
            session.acknowledge(batch)

    def _take(self) -> MessageBatch | None:
        count = len(self._sessions)
        for step in range(count):
            position = (self._next + step) % count
            batch = self._sessions[position].take()
            if batch is not None:
                self._next = (position + 1) % count
                return batch
        return None
