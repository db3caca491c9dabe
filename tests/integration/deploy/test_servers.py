"""The real servers take the configurations that are shipped, as they stand."""

from __future__ import annotations

import asyncio
import getpass
import subprocess
from pathlib import Path

import pytest

from bench.ports import free_port, release_port
from bench.servers import _speaks_mqtt, mosquitto_path, nats_server_path
from cloud_hub.settings import load_settings as load_hub_settings
from edge_agent.settings import load_settings as load_agent_settings
from tests.architecture.tree import ROOT

DEPLOY = ROOT / "deploy"


def test_nats_server_takes_the_configuration():
    checked = subprocess.run(
        [nats_server_path(), "-t", "-c", str(DEPLOY / "nats/nats-server.conf")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr


@pytest.mark.needs_mosquitto
async def test_mosquitto_takes_the_configuration(tmp_path: Path):
    port = free_port()
    shipped = (DEPLOY / "mosquitto/mosquitto.conf").read_text(encoding="utf-8")
    assert "listener 1883 127.0.0.1\n" in shipped
    text = shipped.replace("listener 1883", f"listener {port}")
    # What Debian's own mosquitto.conf adds around it.
    text += f"persistence_location {tmp_path}/\nuser {getpass.getuser()}\n"
    file = tmp_path / "skerry.conf"
    file.write_text(text, encoding="utf-8")
    server = await asyncio.create_subprocess_exec(mosquitto_path(), "-c", str(file))
    try:
        async with asyncio.timeout(10):
            while not await _speaks_mqtt(port):
                assert server.returncode is None
                await asyncio.sleep(0.05)
    finally:
        server.terminate()
        await server.wait()
        release_port(port)


def test_the_agent_takes_its_sample():
    settings = load_agent_settings(DEPLOY / "edge-agent.toml")
    assert settings.data_dir == Path("/var/lib/skerry")


def test_the_hub_takes_its_sample():
    settings = load_hub_settings(DEPLOY / "cloud-hub.toml")
    assert settings.store.data_dir == Path("/var/lib/skerry-hub")
