"""Publishes at speed with a bounded window, and knows what the broker has acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

from edge_agent.broker.connection import Connection
from edge_agent.broker.options import BrokerOptions
from edge_agent.errors import EdgeError

_POLL_S = 0.002


class PublishStalled(EdgeError):
    """The broker took nothing for too long; what was acknowledged so far stands."""


class LoadPublisher:
    """An async context manager that publishes, for simulated sensors and benchmarks.

    QoS 1: at most `window` messages are unacknowledged; each is sent again, over any number of
    connections, until the broker has acknowledged it. QoS 0: flow follows the socket, what was
    under way when a connection broke is lost. `on_acknowledged` gets each message's `tag`.
    Waits raise PublishStalled when the broker takes nothing for `stall_timeout_s`.
    """

    def __init__(
        self,
        options: BrokerOptions,
        *,
        qos: int = 0,
        window: int = 100,
        stall_timeout_s: float = 60.0,
        on_acknowledged: Callable[[object], None] | None = None,
    ) -> None:
        self._qos = qos
        self._window = window
        self._stall_timeout_s = stall_timeout_s
        self._on_acknowledged = on_acknowledged
        self._waiting: dict[int, object] = {}
        self._moved_s = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self.sent = 0
        self.acknowledged = 0
        self._connection = Connection(
            replace(
                options,
                clean_session=True,
                max_inflight_messages=window,
                max_queued_messages=window + 1,
            ),
            on_published=self._published if qos else None,
        )
        self._client = self._connection.client

    async def __aenter__(self) -> LoadPublisher:
        self._moved_s = time.monotonic()
        self._task = asyncio.create_task(self._connection.run(), name="publisher connection")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._connection.close(timeout_s=0.5 if error else 5.0)
        if self._task is not None:
            await self._task

    @property
    def roomy(self) -> bool:
        """Whether a message can be sent now."""
        if not self._connection.connected:
            return False
        if self._qos:
            return len(self._waiting) < self._window
        return self._client.unsent < 512

    def send(self, topic: str, payload: bytes, tag: object = None) -> None:
        """Sends one message; call it only while `roomy`."""
        packet = self._client.hand_over(topic, payload, qos=self._qos, retain=False)
        if packet is None:
            raise PublishStalled("the window of unacknowledged messages is full: wait for room")
        self.sent += 1
        if self._qos:
            self._waiting[packet] = tag

    async def room(self) -> None:
        """Returns once `roomy`, after giving the socket its turn."""
        await asyncio.sleep(0)
        while not self.roomy:
            await self._wait()
        if not self._qos:
            self._moved_s = time.monotonic()

    async def settled(self) -> None:
        """Returns once every QoS 1 message is acknowledged and every QoS 0 message is sent."""
        while self._waiting or (self._connection.connected and self._client.unsent):
            await self._wait()

    async def _wait(self) -> None:
        if time.monotonic() - self._moved_s > self._stall_timeout_s:
            raise PublishStalled(
                f"{self._connection.options.url} took nothing for {self._stall_timeout_s:g} s "
                f"({self._connection.why or 'connected'}); {len(self._waiting)} messages wait"
            )
        await asyncio.sleep(_POLL_S)

    def _published(self, packet: int) -> None:
        self._moved_s = time.monotonic()
        if packet not in self._waiting:
            return
        tag = self._waiting.pop(packet)
        self.acknowledged += 1
        if self._on_acknowledged is not None:
            self._on_acknowledged(tag)
