"""Both kinds of broker, for promises that hold on each."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.servers import Mosquitto, NatsServer, mosquitto, nats_server


@dataclass(frozen=True)
class Broker:
    """A running broker and its MQTT port."""

    server: Mosquitto | NatsServer
    port: int


@pytest.fixture(
    params=[pytest.param("mosquitto", marks=pytest.mark.needs_mosquitto), "nats-server"]
)
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Broker]:
    if request.param == "mosquitto":
        conf = "autosave_interval 1\nautosave_on_changes true"
        async with mosquitto(tmp_path, extra_conf=conf) as server:
            yield Broker(server, server.port)
    else:
        async with nats_server(tmp_path, mqtt=True) as server:
            yield Broker(server, server.mqtt_port)
