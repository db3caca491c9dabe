"""The servers accept the configurations that the how-to pages give, and let in whom they should."""

import asyncio
import getpass
import re
import subprocess
from pathlib import Path

import pytest

from bench.ports import free_port, release_port
from bench.servers import mosquitto_path, nats_server_path
from tests.architecture.tree import ROOT
from tests.unit.docs.pages import blocks

HOW_TO = ROOT / "docs/how-to"


def test_nats_server_accepts_the_hubs_configuration(tmp_path: Path):
    server, users = blocks(HOW_TO / "run-the-hub.md", "")
    assert "sync_interval: always" in server
    file = tmp_path / "hub.conf"
    file.write_text(server + users, encoding="utf-8")
    checked = subprocess.run(
        [nats_server_path(), "-t", "-c", str(file)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


@pytest.mark.needs_mosquitto
async def test_mosquitto_with_the_pages_configuration_takes_a_local_client(tmp_path: Path):
    (text,) = blocks(HOW_TO / "mosquitto.md", "")
    port = free_port()
    text = re.sub(r"listener 1883", f"listener {port}", text)
    file = tmp_path / "skerry.conf"
    file.write_text(
        f"{text}\npersistence_location {tmp_path}/\nuser {getpass.getuser()}\n", encoding="utf-8"
    )
    server = await asyncio.create_subprocess_exec(
        str(mosquitto_path()), "-c", str(file), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        answer = await _connect(port)
    finally:
        server.terminate()
        await server.wait()
        release_port(port)
    assert answer == b"\x20\x02\x00\x00"  # CONNACK: accepted


async def _connect(port: int) -> bytes:
    """The broker's answer to a CONNECT without a name or password."""
    async with asyncio.timeout(10):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.05)
                continue
            break
        writer.write(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x05\x00\x05probe")
        answer = await reader.readexactly(4)
        writer.close()
        await writer.wait_closed()
    return answer
