"""What local programs saw of alarms on MQTT: the ledger that says whether all of them reached the hub."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from bench.faults.field import Site
from bench.stack import SIMULATED

ALARMING: Final = f"""
[[stream]]
name = "{{0}}/{{1}}"
topic = "sim/+"
{SIMULATED.replace("a = {}", "a = {alarm_above = 24.0}")}
window = 8
hop = 8
rearm_windows = 2
"""
"""As `bench.faults.field.STREAMS`, with an alarm at each crest of the first wave, every 64 readings."""
_READY_S: Final = 10.0


class AlarmWatch:
    """The ids of the alarms that came so far."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    def note(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        """Keeps the id of one alarm; a redelivered message leads to the same one."""
        self.ids.add(json.loads(message.payload)["id"])

    async def unstored(self, site: Site) -> set[str]:
        """The alarms that local programs saw and the hub's database does not hold."""
        rows = await asyncio.to_thread(site.hub.rows, "SELECT id FROM events WHERE kind = 'alarm'")
        return self.ids - {found for (found,) in rows}


@asynccontextmanager
async def alarm_watch(site: Site) -> AsyncIterator[AlarmWatch]:
    """Listens on the field's broker for the length of the block."""
    watch, ready = AlarmWatch(), threading.Event()
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.on_message = watch.note
    client.on_subscribe = lambda *_: ready.set()
    client.on_connect = lambda one, *_: one.subscribe("skerry/+/alarm/#", 1)
    port = int(site.broker_url.rsplit(":", 1)[1])
    await asyncio.to_thread(client.connect, site.broker.host, port)
    client.loop_start()
    try:
        if not await asyncio.to_thread(ready.wait, _READY_S):
            raise TimeoutError("the broker accepted no subscription for alarms")
        yield watch
    finally:
        client.disconnect()
        await asyncio.to_thread(client.loop_stop)
