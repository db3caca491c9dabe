"""Whatever file is damaged: by the third start the agent works again, and says once what it leaves out."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.process import ServerError
from bench.servers import Mosquitto
from bench.stack import MODELS, Agent, command
from tests.journeys.field import publish, until, watching

PLAIN = """
[[stream]]
name = "flow"
topic = "plant/flow"
channels = {flow = {max = 100}}
"""
FAMILY = "waterflow-anomaly"
LAUNCHER = Path(__file__).with_name("dying_start.py")
DEATHS = (1, 2, -signal.SIGKILL, -signal.SIGSEGV)

Damage = Callable[[Path], None]


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * max(1, path.stat().st_size // 256))


def with_model(home: Path) -> str:
    """The tables of a stream with a model package of its own."""
    package = home / "package"
    if not package.exists():
        shutil.copytree(MODELS / FAMILY / "package", package)
    return f"""
[[model]]
package = "{package}"
[[stream]]
name = "water"
topic = "plant/water"
channels = {{flow = {{}}}}
model = "{FAMILY}"
"""


async def ran_well(agent: Agent, field: tuple[str, int]) -> None:
    """A first life, with a verdict, and an orderly end."""
    async with watching(*field) as watch:
        await agent.start()
        await publish(*field, [("plant/flow", b'{"flow": 1}')])
        await until(lambda: watch.verdicts, timeout_s=10)
        code, _ = await agent.terminate()
        assert code == 0
    agent.log_path.write_text("")


async def starts_until_healthy(agent: Agent) -> int:
    """What a service manager does: start again, until it is ready."""
    for count in range(1, 5):
        try:
            await agent.start()
        except ServerError:
            continue
        return count
    raise AssertionError(await agent.log_tail())


def events(agent: Agent, name: str) -> list[dict[str, Any]]:
    """The log lines of one event; what is no line of the log is stepped over."""
    lines = agent.log_path.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [line for line in found if line["event"] == name]


def made(home: Path, broker: Mosquitto, extra: str = "") -> tuple[Agent, tuple[str, int]]:
    field = (broker.host, broker.port)
    agent = Agent(
        home / "device",
        broker="mqtt://{}:{}".format(*field),
        hub=None,
        extra=PLAIN + extra,
        environment={"DIES_AT": ""},
        start_timeout_s=30,
    )
    return agent, field


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
@pytest.mark.parametrize("damage", [empty, cut, garbage])
async def test_a_configuration_that_breaks_gives_way_to_the_one_that_ran_well(
    tmp_path: Path, mosquitto_broker: Mosquitto, damage: Damage
) -> None:
    agent, field = made(tmp_path, mosquitto_broker)
    whole = agent.config.read_bytes()
    try:
        await ran_well(agent, field)
        damage(agent.config)
        assert await starts_until_healthy(agent) == 3
        (told,) = events(agent, "safe_mode")
        assert told["replaced"] == ["configuration"]
        assert "configuration that ran well" in told["why"][0]
        shown = await command("edge-agent", "status", "--config", agent.config)
        assert "DEGRADED   safe mode: the configuration that ran well" in shown
        async with watching(*field) as watch:
            await publish(*field, [("plant/flow", b'{"flow": 1}')])
            await until(lambda: watch.verdicts, timeout_s=10)
        await agent.terminate()

        agent.config.write_bytes(whole)
        await agent.start()
        assert (await agent.status())["safe_mode"] == []
        assert len(events(agent, "safe_mode")) == 1
        assert len(events(agent, "safe_mode_left")) == 1
        await agent.stop()
    finally:
        await agent.kill()


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
async def test_a_newer_configuration_that_cannot_start_gives_way_and_the_operator_can_insist(
    tmp_path: Path, mosquitto_broker: Mosquitto
) -> None:
    agent, field = made(tmp_path, mosquitto_broker)
    try:
        await ran_well(agent, field)
        text = agent.config.read_text()
        agent.config.write_text(text.replace("[http]", '[http]\nhost = "192.0.2.1"'))
        assert await starts_until_healthy(agent) == 3
        (told,) = events(agent, "safe_mode")
        assert "cannot listen" in told["why"][0]
        status = await agent.status()
        assert status["safe_mode"]
        shown = await command("edge-agent", "status", "--config", agent.config)
        assert "safe mode" in shown
        await agent.terminate()
        assert (await _code(agent, "--no-safe-mode")) == 2
    finally:
        await agent.kill()


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
async def test_a_model_that_kills_the_process_is_left_out_until_it_is_installed_anew(
    tmp_path: Path, mosquitto_broker: Mosquitto
) -> None:
    agent, field = made(tmp_path, mosquitto_broker, with_model(tmp_path))
    package = tmp_path / "package"
    try:
        await ran_well(agent, field)
        agent._command[:1] = [sys.executable, str(LAUNCHER)]
        agent._environment["DIES_AT"] = str(package)
        assert await starts_until_healthy(agent) == 3
        (told,) = events(agent, "safe_mode")
        assert told["replaced"] == [f"model {package}"]
        assert "Segmentation fault" in told["why"][0]
        (model,) = (await agent.status())["models"]
        assert model["fault"].startswith("safe mode")
        await agent.kill()
        await agent.start()
        assert len(events(agent, "safe_mode")) == 2, "each start says what it leaves out"
        await agent.terminate()
        (package / "manifest.json").touch()
        agent._environment["DIES_AT"] = ""
        await agent.start()
        assert (await agent.status())["models"][0]["release"]
    finally:
        await agent.kill()


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
async def test_a_spool_that_kills_the_process_is_set_aside_and_salvaged(
    tmp_path: Path, mosquitto_broker: Mosquitto
) -> None:
    agent, field = made(tmp_path, mosquitto_broker)
    try:
        await ran_well(agent, field)
        spool = agent.data_dir / "outbox" / "spool.db"
        agent._command[:1] = [sys.executable, str(LAUNCHER)]
        agent._environment["DIES_AT"] = str(spool.stat().st_ino)
        assert await starts_until_healthy(agent) == 3
        (told,) = events(agent, "safe_mode")
        assert told["replaced"] == ["outbox"]
        status = await agent.status()
        assert status["outbox"]["lanes"]["tel"]["readings"] == 1, "salvaged"
        assert list(spool.parent.glob("spool.db.corrupt-*"))
        await agent.terminate()
        await agent.start()
        assert (await agent.status())["safe_mode"] == [], "it is over"
    finally:
        await agent.kill()


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
@pytest.mark.parametrize("damage", [empty, cut, garbage])
async def test_any_other_file_of_the_device_may_be_damaged(
    tmp_path: Path, mosquitto_broker: Mosquitto, damage: Damage
) -> None:
    agent, field = made(tmp_path, mosquitto_broker, with_model(tmp_path))
    blobs = sorted(path for path in (tmp_path / "package").rglob("*") if path.is_file())
    data = [
        agent.data_dir / name
        for name in (
            "outbox/spool.db",
            "outbox/state.db",
            "subscriptions.json",
            "agent.lock",
            "starts.json",
            "crash.txt",
            "good/edge-agent.toml",
            "good/about.json",
        )
    ]
    try:
        await ran_well(agent, field)
        for path in (*data, *blobs):
            kept = path.read_bytes()
            damage(path)
            assert await starts_until_healthy(agent) <= 3, path
            async with httpx.AsyncClient() as client:
                reply = await client.get(f"http://127.0.0.1:{agent.http_port}/readyz")
            assert reply.status_code == 200, path
            await agent.kill()
            if path in blobs:
                path.write_bytes(kept)
    finally:
        await agent.kill()


async def _code(agent: Agent, *more: str) -> int:
    agent._command.extend(more)
    await agent.spawn()
    return await agent.ended()
