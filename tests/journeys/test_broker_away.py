"""The sensors' broker is absent at the start, or is killed and comes back: the agent waits and goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bench.offline import repeats
from bench.servers import Mosquitto, NatsServer, make_mosquitto
from bench.stack import Agent, Hub, run
from tests.journeys.field import Message, publish, until, watching

STREAM = """
[[stream]]
name = "level"
topic = "plant/level"
time = "recorded"
channels = {level = {}}
"""


def readings(first: int, last: int) -> list[Message]:
    return [
        ("plant/level", json.dumps({"time": 1.7e9 + number, "level": number}).encode())
        for number in range(first, last)
    ]


async def connected(agent: Agent) -> None:
    await agent.status_when(lambda now: now["brokers"][0]["connected"], timeout_s=25)


async def judge_absence(agent: Agent, broker: Mosquitto) -> None:
    """It lives, is not ready, and says why."""
    status = await agent.status()
    (link,) = status["brokers"]
    assert not link["connected"]
    assert "refused" in link["why"].lower() or link["why"] == "the connection was lost"
    text = (await run("edge-agent", "status", "--config", agent.config)).out
    assert f"mqtt://{broker.host}:{broker.port}" in text


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
async def test_the_agent_outlives_a_broker_that_is_absent_and_one_that_is_killed(
    tmp_path: Path, hub_nats: NatsServer
) -> None:
    broker = await make_mosquitto(
        tmp_path, extra_conf="autosave_interval 1\nautosave_on_changes true"
    )
    field = (broker.host, broker.port)
    hub = Hub(tmp_path / "hub", hub_nats)
    agent = Agent(
        tmp_path / "device", broker="mqtt://{}:{}".format(*field), hub=hub_nats.url, extra=STREAM
    )
    try:
        await hub.start()
        await agent.start_without_broker()
        await judge_absence(agent, broker)
        await broker.start()
        await connected(agent)
        async with watching(*field) as watch:
            await publish(*field, readings(0, 200))
            await until(lambda: len(watch.verdicts) == 200, timeout_s=10)

        await broker.kill()
        await agent.status_when(lambda now: not now["brokers"][0]["connected"])
        await judge_absence(agent, broker)
        await broker.start()
        await connected(agent)
        async with watching(*field) as watch:
            await publish(*field, readings(200, 400))
            await until(lambda: len(watch.verdicts) == 200, timeout_s=10)
        stored = await hub.wait_for(400, timeout_s=20)
        assert len(stored) == sum(stored.values()) == 400
        assert await asyncio.to_thread(repeats, agent.log_path) == (len(agent.log()), [])
    finally:
        await agent.kill()
        await hub.stop()
        await broker.stop()
