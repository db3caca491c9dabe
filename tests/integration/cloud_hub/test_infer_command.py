"""`cloud-hub infer` against a running hub, as a person uses it."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from bench.servers import NatsServer
from tests.integration.cloud_hub.rig import hub_settings, running_hub, tiny_models


@pytest.fixture
def config(hub_nats: NatsServer, tmp_path: Path) -> Path:
    path = tmp_path / "hub.toml"
    packages = f'["{tmp_path}/class", "{tmp_path}/anomaly"]'
    path.write_text(f'[nats]\nurl = "{hub_nats.url}"\n[models]\npackages = {packages}\n')
    return path


async def _infer(config: Path, content: object, *options: str) -> tuple[int, str, str]:
    command = (sys.executable, "-m", "cloud_hub", "infer", "tiny-class", "--config", str(config))
    asked = await asyncio.create_subprocess_exec(
        *command, "--input", "-", *options,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(30):
        out, err = await asked.communicate(json.dumps(content).encode())
    assert asked.returncode is not None
    return asked.returncode, out.decode(), err.decode()


async def test_features_and_windows_of_the_same_rows_get_the_same_answer(
    hub_nats: NatsServer, tmp_path: Path, config: Path
):
    settings = hub_settings(hub_nats, tmp_path, models=tiny_models(tmp_path))
    async with running_hub(settings):
        features = await _infer(config, [[0.1, 0.2, 0.3, 0.4]], "--json")
        windows = {"windows": [[[0.1, 0.2], [0.3, 0.4]]], "times": [[0, 1]]}
        from_windows = await _infer(config, windows, "--json")
        table = await _infer(config, [[0.1, 0.2, 0.3, 0.4]])
        wrong = await _infer(config, [[0.1]])
    assert features[0] == 0, features[2]
    first, second = json.loads(features[1]), json.loads(from_windows[1])
    assert first["status"] == "OK"
    assert first["rows"] == second["rows"]
    assert "tiny-class release 3" in table[1]
    assert wrong[0] == 1
    assert "BAD_INPUT" in wrong[2]


async def test_without_a_hub_or_a_server_the_text_says_so(
    hub_nats: NatsServer, tmp_path: Path, config: Path
):
    tiny_models(tmp_path)
    code, _, err = await _infer(config, [[0.1, 0.2, 0.3, 0.4]])
    assert code == 1
    assert "no hub listens" in err
    await hub_nats.stop()
    code, _, err = await _infer(config, [[0.1, 0.2, 0.3, 0.4]])
    assert code == 1
    assert "cannot connect to" in err
    assert "Traceback" not in err
