"""The agent's sessions at its brokers: which filters, in which session, and what is remembered of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from edge_agent.agent.ground import Keeping
from edge_agent.agent.subscriptions import Filters, save_subscriptions, unwanted
from edge_agent.agent.volatile import hold_lasting_session, passing_session
from edge_agent.broker.options import BrokerOptions, broker_options
from edge_agent.broker.session import BrokerSession
from edge_agent.outputs.topics import status_topic
from edge_agent.settings import Settings
from edge_agent.types import Clock


class Brokers:
    """One session a broker: the lasting one, or while there is no outbox a passing one at QoS 0."""

    def __init__(
        self, settings: Settings, *, past: Filters, keeping: Keeping, clock: Clock
    ) -> None:
        """Nothing is connected yet. `past` are the filters that the brokers may remember."""
        self._settings = settings
        self._keeping = keeping
        self._clock = clock
        self._filters = sorted({stream.topic for stream in settings.stream})
        self._lasting = [
            broker_options(each, device=settings.device.name) for each in settings.brokers
        ]
        self.sessions = self._make(past)

    @property
    def heard(self) -> bool:
        """Whether a broker takes what is published now."""
        return any(session.state().connected for session in self.sessions)

    @property
    def relaxed(self) -> list[str]:
        """The sessions whose QoS 0 readings may wait for the disk in memory."""
        pairs = zip(self._settings.brokers, self.sessions, strict=True)
        return [session.name for broker, session in pairs if broker.durability == "memory"]

    def holding(self) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Tasks that make the brokers keep messages for the lasting sessions, where those stay closed."""
        if self._keeping is Keeping.STORED:
            return []
        return [
            (
                f"hold-{options.name}",
                partial(hold_lasting_session, options, self._topics(qos), clock=self._clock),
            )
            for options, qos in self._with_qos()
        ]

    async def remember(self) -> None:
        """Saves the filters; what cannot be saved costs an unsubscribe at the next start, no more."""
        if self._keeping is Keeping.VOLATILE:
            return
        filters = {each.name: [*self._filters, *each.unwanted] for each in self.sessions}
        with suppress(OSError):
            await asyncio.to_thread(save_subscriptions, self._settings.data_dir, filters)

    def stop(self) -> None:
        """Takes in nothing more."""
        for session in self.sessions:
            session.stop()

    async def close(self, *, timeout_s: float) -> None:
        """Says goodbye to all of them at the same time."""
        await asyncio.gather(*(each.close(timeout_s=timeout_s) for each in self.sessions))

    def _make(self, past: Filters) -> list[BrokerSession]:
        volatile = self._keeping is Keeping.VOLATILE
        left_over = unwanted(past, {each.name: self._filters for each in self._lasting})
        return [
            BrokerSession(
                passing_session(options) if volatile else options,
                filters=self._topics(0 if volatile else qos),
                unwanted=left_over[options.name],
                status_topic=status_topic(self._settings.prefix),
                clock=self._clock,
            )
            for options, qos in self._with_qos()
        ]

    def _with_qos(self) -> list[tuple[BrokerOptions, int]]:
        pairs = zip(self._lasting, self._settings.brokers, strict=True)
        return [(options, broker.qos) for options, broker in pairs]

    def _topics(self, qos: int) -> list[tuple[str, int]]:
        return [(topic, qos) for topic in self._filters]
