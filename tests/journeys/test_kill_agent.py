"""`kill -9` of the agent in mid-stream, with a real broker, a real nats-server and a real hub."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from bench.servers import Mosquitto, NatsServer
from bench.stack import Agent, Hub, acknowledged, finished, simulator, start
from edge_agent.pipeline.outcome import verdict_id
from tests.journeys.field import watching

STREAMS = """
[[stream]]
name = "{0}/{1}"
topic = "sim/+"
channels = {a = {}, b = {}, c = {}, d = {}}
window = 8
hop = 1
"""
STREAM_COUNT = 4


async def kill_in_mid_stream(
    tmp_path: Path, *, host: str, port: int, hub_server: NatsServer, kills: int, messages: int
) -> tuple[set[tuple[str, float]], dict[tuple[str, float], int], set[str], str]:
    """Kills the agent again and again while sensors publish; returns the ledgers at the end."""
    broker = f"mqtt://{host}:{port}"
    hub = Hub(tmp_path / "hub", hub_server)
    agent = Agent(tmp_path / "device", broker=broker, hub=hub_server.url, extra=STREAMS)
    ledger = tmp_path / "sent.jsonl"
    await hub.start()
    await agent.start()
    rng = random.Random(7)
    async with watching(host, port) as watch:
        try:
            sensors = await start(
                simulator(broker, ledger, messages=messages, rate=1500, streams=STREAM_COUNT)
            )
            for _ in range(kills):
                await asyncio.sleep(rng.uniform(0.3, 0.6))
                await agent.kill()
                await agent.start()
            assert await finished(sensors) == messages
            sent = await asyncio.to_thread(acknowledged, ledger)
            stored = await hub.wait_for(len(sent), timeout_s=45)
            epoch = (await agent.status())["outbox"]["epoch"]
            await agent.stop()
            await asyncio.sleep(0.2)
        finally:
            await agent.kill()
            await hub.stop()
        return sent, dict(stored), watch.ids, epoch


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(150)
async def test_ten_kills_on_mosquitto_lose_nothing_and_store_nothing_twice(
    tmp_path: Path, mosquitto_broker: Mosquitto, hub_nats: NatsServer
) -> None:
    sent, stored, verdicts, epoch = await kill_in_mid_stream(
        tmp_path,
        host=mosquitto_broker.host,
        port=mosquitto_broker.port,
        hub_server=hub_nats,
        kills=10,
        messages=20_000,
    )
    assert sent - stored.keys() == set(), "acknowledged to the sensors, absent from the hub"
    assert stored.keys() - sent == set(), "in the hub, never sent"
    assert [key for key, count in stored.items() if count > 1] == []
    # Windows continue: from a stream's 8th reading on each ends one, numbered without a break across
    # the kills; a verdict that is given twice has the same id. Verdicts go out at QoS 0, so that a
    # few may stay in a socket that the broker was too slow to empty when the kill came.
    counts = Counter(stream for stream, _ in sent)
    due = {
        verdict_id("journey", epoch, stream, "", number)
        for stream, count in counts.items()
        for number in range(8, count + 1)
    }
    assert verdicts - due == set()
    assert len(due - verdicts) <= 0.01 * len(due)
    assert {verdict_id("journey", epoch, each, "", n) for each, n in counts.items()} <= verdicts


@pytest.mark.timeout(120)
async def test_kills_on_nats_server_lose_nothing_and_store_nothing_twice(
    tmp_path: Path, field_nats: NatsServer, hub_nats: NatsServer
) -> None:
    sent, stored, _, _ = await kill_in_mid_stream(
        tmp_path,
        host=field_nats.host,
        port=field_nats.mqtt_port,
        hub_server=hub_nats,
        kills=3,
        messages=6_000,
    )
    assert sent - stored.keys() == set()
    assert stored.keys() - sent == set()
    assert [key for key, count in stored.items() if count > 1] == []
