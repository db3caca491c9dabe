"""SIGTERM under load: an orderly end within five seconds, nothing lost, nobody left without an answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.servers import Mosquitto, NatsServer
from bench.stack import (
    SIMULATED,
    Agent,
    Hub,
    acknowledged,
    finished,
    simulator,
    start,
)
from tests.journeys import motion
from tests.journeys.field import publish, watching

STREAMS = f"""
[[stream]]
name = "{{0}}/{{1}}"
topic = "sim/+"
{SIMULATED}
"""
MESSAGES = 12_000


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(90)
async def test_sigterm_under_load_ends_in_order_and_loses_nothing(
    tmp_path: Path, mosquitto_broker: Mosquitto, hub_nats: NatsServer
) -> None:
    field = (mosquitto_broker.host, mosquitto_broker.port)
    broker = "mqtt://{}:{}".format(*field)
    hub = Hub(tmp_path / "hub", hub_nats, packages=(motion.PACKAGE,))
    agent = Agent(
        tmp_path / "device",
        broker=broker,
        hub=hub_nats.url,
        extra=motion.EVERYTHING + motion.stream(deadline_ms=30_000) + STREAMS,
    )
    ledger, wrist = tmp_path / "sent.jsonl", motion.Wrist()
    windows = [message for name in ("a", "b") for message in wrist.window(name)]
    async with watching(*field) as watch:
        try:
            await hub.start()
            await agent.start()
            await agent.status_when(lambda now: now["hub"]["health"] == "online")
            hub.freeze()
            sensors = await start(simulator(broker, ledger, messages=MESSAGES, rate=4000))
            await publish(*field, windows)
            await agent.status_when(lambda now: now["escalated"] == 2)
            code, seconds = await agent.terminate()
            assert code == 0
            assert seconds < 5.0
            await asyncio.sleep(0.2)
            waited = [seen.body for seen in watch.verdicts if seen.body["tier"] == "model"]
            assert {each["stream"] for each in waited} == {"motion/a", "motion/b"}
            assert agent.log()[-1]["event"] == "agent_stopped"
            assert all(line["level"] != "error" for line in agent.log())

            hub.thaw()
            await agent.start()
            assert await finished(sensors) == MESSAGES
            sent = await asyncio.to_thread(acknowledged, ledger)
            stored = await hub.wait_for(len(sent) + len(windows), timeout_s=30)
            simulated = {key: count for key, count in stored.items() if key[0].startswith("sim/")}
            assert simulated.keys() == sent
            assert set(stored.values()) == {1}
            assert len(stored) == len(sent) + len(windows)
            given = [seen.body["id"] for seen in watch.verdicts if "motion" in seen.body["stream"]]
            assert len(given) == 2, "each window was answered once"
        finally:
            await agent.kill()
            await hub.stop()
