"""The device has worked alone from its first start; then a hub appears, and everything reaches it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.servers import Mosquitto, make_nats_server
from bench.stack import Agent, Hub, waiting_rows
from tests.journeys import motion
from tests.journeys.field import publish, until, watching

NAMES = ("a", "b", "c")


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(90)
async def test_a_hub_that_appears_later_gets_everything_and_its_answers_come_down_once(
    tmp_path: Path, mosquitto_broker: Mosquitto
) -> None:
    field = (mosquitto_broker.host, mosquitto_broker.port)
    server = await make_nats_server(tmp_path, name="late")
    hub = Hub(tmp_path / "hub", server, packages=(motion.PACKAGE,))
    agent = Agent(
        tmp_path / "device",
        broker="mqtt://{}:{}".format(*field),
        hub=server.url,
        extra=motion.EVERYTHING + motion.stream(),
    )
    wrist = motion.Wrist()
    sent = [message for _ in range(2) for name in NAMES for message in wrist.window(name)]
    async with watching(*field) as watch:
        try:
            await agent.start()
            await publish(*field, sent)
            await until(lambda: len(watch.verdicts) == 6, timeout_s=10, what="six verdicts")
            for seen in watch.verdicts:
                assert seen.body["tier"] == "model"
                assert {"hub_offline", "bulk_escalated"} <= set(seen.body["reasons"])
            status = await agent.status()
            assert status["hub"]["health"] == "offline"
            assert status["outbox"]["lanes"]["bulk"]["rows"] == 6
            assert status["deadline_misses"] == 0
            assert status["escalated"] == 6

            await server.start()
            await hub.start()
            await until(lambda: len(watch.revisions) >= 6, timeout_s=30, what="six revisions")
            assert {seen.body["verdict"] for seen in watch.revisions} == watch.ids
            labels = {seen.body["id"]: seen.body["label"] for seen in watch.verdicts}
            for seen in watch.revisions:
                assert seen.body["tier"] == "hub"
                agrees = seen.body["label"] == labels[seen.body["verdict"]]
                assert seen.body["agrees"] is agrees

            await agent.restart()
            status = await agent.status_when(
                lambda now: now["hub"]["health"] == "online" and waiting_rows(now) == 0
            )
            await asyncio.sleep(1.0)  # time for two more exchanges with the hub
            assert len(watch.revisions) == 6, "a revision was given out twice"
            assert len(watch.verdicts) == 6
            lanes = status["outbox"]["lanes"]
            assert lanes["bulk"]["rows"] == lanes["evt"]["rows"] == 0, "applied rows are trimmed"
            stored = await asyncio.to_thread(hub.stored)
            assert sum(stored.values()) == len(stored) == len(sent)
            shown = await hub.ask("device", "show", "journey")
            assert shown["escalations"] == {"answered": 6}
            assert shown["revisions"] == 6
        finally:
            await agent.kill()
            await hub.stop()
            await server.stop()
