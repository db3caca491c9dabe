"""Windows that wait for the hub when the agent is killed are answered after its restart, once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.servers import Mosquitto, NatsServer
from bench.stack import Agent, Hub
from tests.journeys import motion
from tests.journeys.field import publish, until, watching

NAMES = ("a", "b", "c")


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(60)
async def test_verdicts_that_waited_for_the_hub_at_a_kill_are_given_after_the_restart(
    tmp_path: Path, mosquitto_broker: Mosquitto, hub_nats: NatsServer
) -> None:
    field = (mosquitto_broker.host, mosquitto_broker.port)
    hub = Hub(tmp_path / "hub", hub_nats, packages=(motion.PACKAGE,))
    agent = Agent(
        tmp_path / "device",
        broker="mqtt://{}:{}".format(*field),
        hub=hub_nats.url,
        extra=motion.EVERYTHING + motion.stream(deadline_ms=30_000),
    )
    wrist = motion.Wrist()
    async with watching(*field) as watch:
        try:
            await hub.start()
            await agent.start()
            await agent.status_when(lambda now: now["hub"]["health"] == "online")
            hub.freeze()
            await publish(*field, [each for name in NAMES for each in wrist.window(name)])
            await agent.status_when(lambda now: now["escalated"] == len(NAMES))
            await asyncio.sleep(0.3)
            assert watch.verdicts == []

            await agent.kill()
            await agent.start()
            await until(lambda: len(watch.verdicts) >= len(NAMES), timeout_s=10)
            assert {seen.body["stream"] for seen in watch.verdicts} == {
                "motion/a",
                "motion/b",
                "motion/c",
            }
            for seen in watch.verdicts:
                assert seen.body["tier"] == "model"
                assert seen.body["reasons"] == ["uncertain", "restarted"]

            hub.thaw()
            await agent.kill()
            await agent.start()
            await agent.status_when(lambda now: now["hub"]["health"] == "online")
            await asyncio.sleep(0.5)
            assert len(watch.verdicts) == len(NAMES), "a verdict was given again"
        finally:
            await agent.kill()
            await hub.stop()
