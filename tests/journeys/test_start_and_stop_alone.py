"""Start and stop wait for nobody: no broker, no hub, no name server, nobody who answers."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from bench.servers import Mosquitto, NatsServer
from bench.stack import Agent
from tests.journeys.field import publish, until, watching
from tests.journeys.supervisor import Notified, notified

STREAM = """
[[stream]]
name = "flow"
topic = "plant/flow"
channels = {flow = {max = 100}}
"""
NOWHERE = "no-such-host.invalid"
MESSAGES = [("plant/flow", b'{"flow": %d}' % (n % 50)) for n in range(200)]


def _ready_times(systemd: Notified, count: int) -> bool:
    return systemd.lines().count("READY=1") == count


def _start_s(agent: Agent) -> float:
    """From the first line of the last start to its being ready, by the agent's own clock."""
    times = {line["event"]: datetime.fromisoformat(line["timestamp"]) for line in agent.log()}
    return (times["agent_ready"] - times["agent_started"]).total_seconds()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("host", [NOWHERE, "192.0.2.1"], ids=["no name server", "no route"])
async def test_a_boot_while_offline_is_ready_at_once_and_ends_in_order(
    tmp_path: Path, host: str
) -> None:
    async with notified(tmp_path) as systemd:
        agent = Agent(
            tmp_path / "device",
            broker=f"mqtt://{host}:1883",
            hub=f"nats://{host}:4222",
            extra=STREAM,
            environment=systemd.environment(watchdog_s=30),
            start_timeout_s=30,
        )
        try:
            for boot in range(2):
                await agent.start_without_broker()
                await until(partial(_ready_times, systemd, boot + 1), timeout_s=20)
                assert _start_s(agent) < 5
                code, seconds = await agent.terminate()
                assert (code, seconds < 5) == (0, True)
        finally:
            await agent.kill()


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
async def test_it_works_as_soon_as_the_broker_comes(
    tmp_path: Path, mosquitto_broker: Mosquitto
) -> None:
    field = (mosquitto_broker.host, mosquitto_broker.port)
    await mosquitto_broker.stop()
    agent = Agent(tmp_path / "device", broker="mqtt://{}:{}".format(*field), hub=None, extra=STREAM)
    try:
        await agent.start_without_broker()
        await mosquitto_broker.start()
        await agent.status_when(lambda now: now["brokers"][0]["connected"], timeout_s=30)
        async with watching(*field) as watch:
            await publish(*field, MESSAGES[:5])
            await until(lambda: len(watch.verdicts) >= 5, timeout_s=10)
    finally:
        await agent.stop()


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
async def test_a_broker_and_a_hub_that_hang_do_not_hold_up_the_end(
    tmp_path: Path, mosquitto_broker: Mosquitto, hub_nats: NatsServer
) -> None:
    field = (mosquitto_broker.host, mosquitto_broker.port)
    agent = Agent(
        tmp_path / "device",
        broker="mqtt://{}:{}".format(*field),
        hub=hub_nats.url,
        extra=STREAM,
        start_timeout_s=30,
    )
    try:
        await agent.start()
        await publish(*field, MESSAGES)
        mosquitto_broker.freeze()
        hub_nats.freeze()
        code, seconds = await agent.terminate()
        assert (code, seconds < 5) == (0, True)
        mosquitto_broker.thaw()
        await agent.start()
        await agent.status_when(
            lambda now: now["outbox"]["lanes"]["tel"]["readings"] >= len(MESSAGES)
        )
        status = await agent.status()
        assert status["outbox"]["lanes"]["tel"]["readings"] == len(MESSAGES)
    finally:
        mosquitto_broker.thaw()
        hub_nats.thaw()
        await agent.kill()
