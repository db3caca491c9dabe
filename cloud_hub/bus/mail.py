"""Outgoing core messages: handed over at once, sent by one task, dropped and counted when nobody can take them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from cloud_hub.bus.cancelling import honour_cancellation
from cloud_hub.bus.connection import Connection
from cloud_hub.bus.dial import NATS_ERRORS
from cloud_hub.errors import BusDown
from cloud_hub.metrics import HubMetrics

MAX_WAITING: Final = 16384


class Mail:
    """Sends answers and nudges in the order in which they were handed over.

    A message that finds no connection is dropped: an answer that is late is worth nothing, and a nudge is
    repeated by the next reason for it.
    """

    def __init__(self, connection: Connection, *, metrics: HubMetrics) -> None:
        self._connection = connection
        self._metrics = metrics
        self._waiting: deque[tuple[str, bytes, dict[str, str] | None]] = deque()
        self._something = asyncio.Event()

    def post(self, subject: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Hands one message to the sender; never blocks."""
        if len(self._waiting) >= MAX_WAITING:
            self._metrics.dropped.labels("mail_full").inc()
            return
        self._waiting.append((subject, body, None if headers is None else dict(headers)))
        self._something.set()

    async def run(self) -> None:
        """Sends until cancelled."""
        while True:
            while self._waiting:
                await self._send(*self._waiting.popleft())
            self._something.clear()
            await self._something.wait()

    async def flush(self) -> None:
        """Sends all that waits, now; for the end of the hub's life."""
        while self._waiting:
            await self._send(*self._waiting.popleft())

    async def _send(self, subject: str, body: bytes, headers: dict[str, str] | None) -> None:
        try:
            await self._connection.client_now().publish(subject, body, headers=headers)
        except (*NATS_ERRORS, BusDown):
            self._metrics.dropped.labels("unsent").inc()
        honour_cancellation()
