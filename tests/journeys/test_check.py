"""`edge-agent check`: what is well, what is not, why, and how to mend it; told by its exit code too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.servers import Mosquitto, NatsServer
from bench.stack import Agent, Hub, run
from tests.journeys import motion
from tests.journeys.field import publish, until, watching


async def check(agent: Agent, *args: object) -> tuple[int, dict[str, Any]]:
    """The exit code and the findings by the first word of their subject."""
    ended = await run("edge-agent", "check", "--json", "--config", agent.config, *args)
    assert "Traceback" not in ended.err
    document = json.loads(ended.out)
    assert document["ok"] is (ended.code == 0)
    return ended.code, {each["subject"].split()[0]: each for each in document["findings"]}


def damage(package: Path) -> None:
    """Flips one bit in the middle of the device's model."""
    (model,) = package.glob("device*.onnx")
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    model.write_bytes(bytes(content))


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(90)
async def test_check_finds_what_is_wrong_and_says_how_to_mend_it(
    tmp_path: Path, mosquitto_broker: Mosquitto, hub_nats: NatsServer
) -> None:
    field = (mosquitto_broker.host, mosquitto_broker.port)
    package = tmp_path / "package"
    shutil.copytree(motion.PACKAGE, package)
    tables = motion.stream().replace(str(motion.PACKAGE), str(package))
    broker = "mqtt://{}:{}".format(*field)
    agent = Agent(tmp_path / "device", broker=broker, hub=hub_nats.url, extra=tables)
    hub = Hub(tmp_path / "hub", hub_nats)
    try:
        await hub.start()
        await agent.start()
        code, found = await check(agent)
        assert code == 0
        assert {"configuration", "model", "clock", "disk", "broker", "hub"} == found.keys()
        for subject in ("configuration", "model", "disk", "broker", "hub"):
            assert found[subject]["state"] == "ok", found[subject]
        (link,) = (await agent.status())["brokers"]
        assert link["connections"] == 1, "the check took the agent's session"
        await agent.stop()

        await hub.stop()
        code, found = await check(agent)
        assert code == 0, "a device works without its hub"
        assert found["hub"]["state"] == "warning"
        assert found["hub"]["mend"]

        damage(package)
        code, found = await check(agent)
        assert code == 1
        assert found["model"]["state"] == "failed"
        assert str(package) in found["model"]["subject"]
        assert found["model"]["mend"]
        await judge_lower_tier(agent, field)
        await mosquitto_broker.stop()
        code, found = await check(agent)
        assert code == 1
        assert found["broker"]["state"] == "failed"
        assert "refused" in found["broker"]["what"].lower()
        assert found["broker"]["mend"]

        shutil.rmtree(package)
        shutil.copytree(motion.PACKAGE, package)
        code, found = await check(agent, "--offline")
        assert code == 0
        assert found.keys() == {"configuration", "model", "clock", "disk"}
        text = (await run("edge-agent", "check", "--offline", "--config", agent.config)).out
        assert "ok  configuration" in text
    finally:
        await agent.kill()
        await hub.stop()


async def judge_lower_tier(agent: Agent, field: tuple[str, int]) -> None:
    """With a damaged model the agent runs, and says who answered instead."""
    async with watching(*field) as watch:
        await agent.start()
        await publish(*field, motion.Wrist().window("a"))
        await until(lambda: watch.verdicts, timeout_s=10)
        body = watch.verdicts[0].body
        assert body["tier"] != "model"
        assert "no_model" in body["reasons"]
        models = (await agent.status())["models"]
        assert any(each["fault"] for each in models)
        await agent.stop()
