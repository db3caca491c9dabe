"""The sensors of a drill: they publish at QoS 1 and keep a ledger of what the broker has acknowledged."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType

from edge_agent.broker.options import BrokerOptions
from edge_agent.broker.publisher import LoadPublisher
from edge_agent.rehearse.payloads import Key, Planned, Readings
from edge_agent.rehearse.ports import HOST

_WINDOW = 200
_STALL_S = 30.0


class Sensors:
    """Publishes readings at a pace; an acknowledged reading is in `acknowledged`, a sent one in `sent`."""

    def __init__(self, readings: Readings, *, port: int) -> None:
        self.sent: set[Key] = set()
        self.acknowledged: set[Key] = set()
        self._readings = readings
        self._publisher = LoadPublisher(
            BrokerOptions(host=HOST, port=port, client_id=f"skerry-rehearsal-{os.getpid()}"),
            qos=1,
            window=_WINDOW,
            stall_timeout_s=_STALL_S,
            on_acknowledged=self._note,
        )

    async def __aenter__(self) -> Sensors:
        await self._publisher.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._publisher.__aexit__(kind, error, trace)

    async def send(self, messages: int, *, per_s: float) -> None:
        """Publishes so many messages at a steady pace, and returns once all are acknowledged.

        Raises PublishStalled when the broker takes nothing for half a minute.
        """
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        for index in range(messages):
            ahead_s = begin_s + index / per_s - loop.time()
            if ahead_s > 0:
                await asyncio.sleep(ahead_s)
            await self._publisher.room()
            message = next(iter(self._readings.take(1)))
            self.sent.update(message.keys)
            self._publisher.send(message.topic, message.payload, message)
        await self._publisher.settled()

    def forget(self) -> None:
        """A new drill begins."""
        self.sent = set()
        self.acknowledged = set()

    def _note(self, tag: object) -> None:
        assert isinstance(tag, Planned)
        self.acknowledged.update(tag.keys)
