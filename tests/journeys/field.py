"""The device's surroundings: sensors that publish what they like, and somebody who listens to the agent."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

Message = tuple[str, bytes]
_CONNECT_S = 10.0


class Seen(NamedTuple):
    """A message of the agent, and when it was heard (monotonic)."""

    at_s: float
    body: dict[str, Any]


class Watch:
    """Hears every verdict, alarm and revision of all devices, in order of arrival."""

    def __init__(self, host: str, port: int) -> None:
        self.verdicts: list[Seen] = []
        self.alarms: list[Seen] = []
        self.revisions: list[Seen] = []
        self._by_kind = {
            "verdict": self.verdicts,
            "alarm": self.alarms,
            "revision": self.revisions,
        }
        self._granted = False
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id="watch")
        self._client.on_message = self._on_message
        self._client.on_connect = lambda client, *_: client.subscribe("skerry/#", qos=1)
        self._client.on_subscribe = lambda *_: setattr(self, "_granted", True)
        self._client.reconnect_delay_set(min_delay=1, max_delay=1)
        self._client.connect(host, port, keepalive=10)
        self._client.loop_start()
        deadline = time.monotonic() + _CONNECT_S
        while not self._granted:
            assert time.monotonic() < deadline, "the broker did not take the subscription"
            time.sleep(0.01)

    @property
    def ids(self) -> set[str]:
        """The ids of all verdicts."""
        return {seen.body["id"] for seen in self.verdicts}

    def by_stream(self) -> dict[str, list[dict[str, Any]]]:
        """The verdicts of each stream, in order."""
        found: dict[str, list[dict[str, Any]]] = {}
        for seen in self.verdicts:
            found.setdefault(seen.body["stream"], []).append(seen.body)
        return found

    def _on_message(self, _client: object, _data: object, message: paho.MQTTMessage) -> None:
        levels = message.topic.split("/")
        seen = self._by_kind.get(levels[2] if len(levels) > 2 else "")
        if seen is not None:
            seen.append(Seen(time.monotonic(), json.loads(message.payload)))

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@asynccontextmanager
async def watching(host: str, port: int) -> AsyncIterator[Watch]:
    """A watch that hears everything from now on."""
    watch = await asyncio.to_thread(Watch, host, port)
    try:
        yield watch
    finally:
        await asyncio.to_thread(watch.close)


async def until(
    condition: Callable[[], object], *, timeout_s: float, what: str = "the condition"
) -> None:
    """Returns once the condition holds; fails at the end of the time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {timeout_s:g} s"
        await asyncio.sleep(0.02)


async def publish(host: str, port: int, messages: Iterable[Message]) -> None:
    """Publishes at QoS 1 and returns once the broker has acknowledged all of it."""
    await asyncio.to_thread(_publish, host, port, list(messages))


def _publish(host: str, port: int, messages: list[Message]) -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="sensor")
    client.max_queued_messages_set(0)
    client.connect(host, port)
    client.loop_start()
    try:
        sent = [client.publish(topic, payload, qos=1) for topic, payload in messages]
        for info in sent:
            info.wait_for_publish(20)
            assert info.is_published()
    finally:
        client.disconnect()
        client.loop_stop()
