"""Uncertain windows are answered by the hub within the deadline; without it the device answers in time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.servers import Mosquitto, NatsServer
from bench.stack import Agent, Hub, run
from tests.journeys import motion
from tests.journeys.field import Watch, publish, until, watching

DEADLINE_MS = 400.0
GRACE_MS = 50.0
FLOW = """
[[stream]]
name = "level"
topic = "plant/level"
channels = {level = {unit = "m"}}
"""


async def verdict_of(
    watch: Watch, field: tuple[str, int], wrist: motion.Wrist, name: str
) -> dict[str, Any]:
    """The verdict of one more window; it may be no later than its deadline, and 50 ms of grace."""
    before = len(watch.verdicts)
    await publish(*field, wrist.window(name))
    await until(lambda: len(watch.verdicts) > before, timeout_s=10, what="a verdict")
    verdict = watch.verdicts[-1].body
    assert sum(verdict["stages_ms"].values()) <= DEADLINE_MS + GRACE_MS
    return verdict


async def judge_commands(hub: Hub, tmp_path: Path) -> None:
    """What the hub's commands show of it."""
    (listed,) = await hub.ask("device", "list")
    assert listed["device"] == "journey"
    shown = await hub.ask("device", "show", "journey")
    assert {each["stream"] for each in shown["streams"]} >= {"motion/a", "level"}
    assert shown["dead_letters"] == {}
    answer = await hub.ask("telemetry", "query", "--device", "journey", "--stream", "level")
    (reading,) = answer["readings"]
    assert reading["values"] == {"level": 1.25}
    window = [json.loads(payload) for _, payload in motion.Wrist().window("x")]
    source = tmp_path / "window.json"
    rows = [[row[name] for name in motion.CHANNELS] for row in window]
    source.write_text(json.dumps({"windows": [rows]}), encoding="utf-8")
    asked = await hub.ask("infer", "motion-class", "--input", source)
    assert asked["status"] == "OK"
    (row,) = asked["rows"]
    assert row["label"] in ("badminton", "running", "standing", "walking")
    for args in (("device", "list"), ("device", "show", "journey")):
        ended = await run("cloud-hub", *args, "--config", hub.config)
        assert ended.code == 0
        assert "journey" in ended.out


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(90)
async def test_the_hub_answers_in_time_or_the_device_does_with_the_reason(
    tmp_path: Path, mosquitto_broker: Mosquitto, hub_nats: NatsServer
) -> None:
    field = (mosquitto_broker.host, mosquitto_broker.port)
    hub = Hub(tmp_path / "hub", hub_nats, packages=(motion.PACKAGE,))
    agent = Agent(
        tmp_path / "device",
        broker="mqtt://{}:{}".format(*field),
        hub=hub_nats.url,
        extra=motion.EVERYTHING + motion.stream(deadline_ms=DEADLINE_MS) + FLOW,
    )
    wrist = motion.Wrist()
    async with watching(*field) as watch:
        try:
            await hub.start()
            await agent.start()
            await agent.status_when(lambda now: now["hub"]["health"] == "online")
            for name in ("a", "b", "a"):
                verdict = await verdict_of(watch, field, wrist, name)
                assert verdict["tier"] == "hub"
                assert verdict["reasons"] == ["uncertain", "hub_answered"]
            await publish(*field, [("plant/level", b'{"level": 1.25}')])
            await until(lambda: watch.verdicts[-1].body["stream"] == "level", timeout_s=5)
            await hub.wait_for(301, timeout_s=10)
            await judge_commands(hub, tmp_path)

            hub.freeze()
            for name in ("a", "b"):
                verdict = await verdict_of(watch, field, wrist, name)
                assert verdict["tier"] == "model"
                assert verdict["reasons"] == ["uncertain", "hub_timeout"]
            hub.thaw()
            # The answers that came late are revisions of the verdicts that were given.
            late = {seen.body["id"] for seen in watch.verdicts[-2:]}
            await until(
                lambda: {seen.body["verdict"] for seen in watch.revisions} == late, timeout_s=20
            )

            await hub.kill()
            verdict = await verdict_of(watch, field, wrist, "a")
            assert verdict["tier"] == "model"
            assert "hub_offline" in verdict["reasons"]
            assert sum(verdict["stages_ms"].values()) < DEADLINE_MS / 2, "it answers at once"

            await hub.start()
            await agent.status_when(lambda now: now["hub"]["health"] == "online")
            assert (await verdict_of(watch, field, wrist, "b"))["tier"] == "hub"
            # Every window that was put to the hub has come to its end, also that of the killed hub.
            status = await agent.status_when(
                lambda now: now["escalations"] == {"answered": 4, "revised": 3}
            )
            assert status["escalated"] == 7
            assert status["deadline_misses"] == 0
        finally:
            await agent.kill()
            await hub.stop()
