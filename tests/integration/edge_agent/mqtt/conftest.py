"""All kinds of broker, the drills' stand-in too, for promises that hold on each."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.ports import free_port
from bench.servers import Mosquitto, NatsServer, mosquitto, nats_server
from edge_agent.rehearse.children import Child
from edge_agent.rehearse.servers import Programs, make_broker


@dataclass(frozen=True)
class Broker:
    """A running broker and its MQTT port."""

    server: Mosquitto | NatsServer | Child
    port: int


@pytest.fixture(
    params=[pytest.param("mosquitto", marks=pytest.mark.needs_mosquitto), "nats-server", "stand-in"]
)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Broker]:
    if request.param == "mosquitto":
        conf = "autosave_interval 1\nautosave_on_changes true"
        async with mosquitto(tmp_path, extra_conf=conf) as server:
            yield Broker(server, server.port)
    elif request.param == "stand-in":
        port = free_port()
        child = await asyncio.to_thread(make_broker, Programs(), folder=tmp_path, port=port)
        await child.start()
        try:
            yield Broker(child, port)
        finally:
            await child.stop()
    else:
        async with nats_server(tmp_path, mqtt=True) as server:
            yield Broker(server, server.mqtt_port)
