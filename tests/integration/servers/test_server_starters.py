"""The starters of real servers keep what their docstring says; every other test stands on it."""

import asyncio
from pathlib import Path

import nats
import pytest

from bench.servers import NatsServer, ServerError, make_nats_server, mosquitto, nats_server


async def test_data_survives_a_kill_on_the_same_port(hub_nats: NatsServer):
    port = hub_nats.port
    client = await nats.connect(hub_nats.url)
    await client.jetstream().add_stream(name="S", subjects=["s"])
    await client.jetstream().publish("s", b"kept")
    await client.close()
    await hub_nats.kill()
    assert not hub_nats.is_running()
    await hub_nats.start()
    assert hub_nats.port == port
    client = await nats.connect(hub_nats.url)
    info = await client.jetstream().stream_info("S")
    await client.close()
    assert info.state.messages == 1


@pytest.mark.parametrize("always", [True, False])
async def test_monitoring_tells_whether_every_write_is_synced(tmp_path: Path, always: bool):
    async with nats_server(tmp_path, sync_always=always) as server:
        reader, writer = await asyncio.open_connection(server.host, server.monitor_port)
        writer.write(b"GET /jsz?config=1 HTTP/1.0\r\nHost: x\r\n\r\n")
        body = await reader.read(-1)
        writer.close()
        await writer.wait_closed()
    assert (b'"sync_always": true' in body) is always


async def test_a_frozen_server_answers_again_after_thaw(hub_nats: NatsServer):
    hub_nats.freeze()
    reader, writer = await asyncio.open_connection(hub_nats.host, hub_nats.port)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readline(), 0.3)
    hub_nats.thaw()
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"INFO ")
    writer.close()
    await writer.wait_closed()


async def test_a_frozen_server_stops(hub_nats: NatsServer):
    hub_nats.freeze()
    await hub_nats.stop()
    assert not hub_nats.is_running()


async def test_field_broker_speaks_mqtt(field_nats: NatsServer):
    await field_nats.restart()
    assert field_nats.is_running()


@pytest.mark.needs_mosquitto
async def test_mosquitto_restarts_on_its_port(tmp_path: Path):
    async with mosquitto(tmp_path) as broker:
        await broker.kill()
        await broker.start()
        assert broker.is_running()


async def test_a_wrong_configuration_is_told_with_the_log(tmp_path: Path):
    server = await make_nats_server(tmp_path, extra_conf="nonsense {")
    with pytest.raises(ServerError, match=r"(?s)ended at start.*Parse error"):
        await server.start()
    assert not server.is_running()
