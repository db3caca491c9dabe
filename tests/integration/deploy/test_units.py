"""The units are what systemd accepts, shut in, and start what becomes ready and stops in order."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.ports import free_port, release_port
from bench.servers import Mosquitto, NatsServer
from tests.integration.deploy.unit_file import UNITS, command, relocated, setting

BIN = Path(sys.executable).parent
ALL = sorted(UNITS.glob("*.service"))
MOST_EXPOSED = 2.0
PR_SET_MDWE = 65
"""prctl(2): what MemoryDenyWriteExecute= forbids, for this process and its children."""


@pytest.mark.parametrize("unit", ALL, ids=lambda unit: unit.stem)
def test_systemd_understands_every_line(unit: Path, tmp_path: Path):
    copy = relocated(unit, tmp_path, bin_dir=BIN)
    seen = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    about_us = [line for line in (seen.stdout + seen.stderr).splitlines() if unit.name in line]
    assert (seen.returncode, about_us) == (0, [])


@pytest.mark.parametrize("unit", ALL, ids=lambda unit: unit.stem)
def test_the_service_is_shut_in(unit: Path):
    seen = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(unit)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", seen.stdout)
    assert level is not None, seen.stderr
    assert float(level.group(1)) <= MOST_EXPOSED


@pytest.mark.parametrize("unit", ALL, ids=lambda unit: unit.stem)
def test_the_service_never_gives_up(unit: Path):
    assert setting(unit, "Restart") == ["always"]
    assert setting(unit, "StartLimitIntervalSec") == ["0"]


class Supervisor:
    """The socket that a service tells its state to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heard: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)

    async def until(self, word: str, *, timeout_s: float) -> None:
        """Returns once the service has said this."""
        deadline = time.monotonic() + timeout_s
        while not any(word in said for said in self.heard):
            assert time.monotonic() < deadline, f"no {word} within {timeout_s} s: {self.heard}"
            await asyncio.sleep(0.02)
            self._hear()

    def _hear(self) -> None:
        while True:
            try:
                self.heard += self._socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return

    def close(self) -> None:
        self._socket.close()


async def supervised(unit: Path, configuration: Path, folder: Path, *, watchdog_s: float) -> int:
    """Runs a unit's command as systemd would: until it is ready and alive, then to its end."""
    supervisor = Supervisor(folder / "notify")
    args = command(unit, bin_dir=BIN, configuration=configuration)
    if setting(unit, "MemoryDenyWriteExecute") == ["yes"]:
        deny = f"import ctypes, os, sys; ctypes.CDLL(None).prctl({PR_SET_MDWE}, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
        args = [sys.executable, "-c", deny, *args]
    process = await asyncio.create_subprocess_exec(
        *args,
        env={
            **os.environ,
            "NOTIFY_SOCKET": str(supervisor.path),
            "WATCHDOG_USEC": str(int(watchdog_s * 1e6)),
        },
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await supervisor.until("READY=1", timeout_s=20)
        await supervisor.until("WATCHDOG=1", timeout_s=watchdog_s)
        process.terminate()
        await supervisor.until("STOPPING=1", timeout_s=10)
        async with asyncio.timeout(15):
            return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        supervisor.close()


@pytest.mark.needs_mosquitto
async def test_the_agents_command_becomes_ready_lives_and_stops(
    tmp_path: Path, mosquitto_broker: Mosquitto
):
    port = free_port()
    sample = (UNITS.parent / "edge-agent.toml").read_text(encoding="utf-8")
    text = sample.replace("127.0.0.1:1883", f"127.0.0.1:{mosquitto_broker.port}")
    text = text.replace("/var/lib/skerry", f"{tmp_path}/data") + f"\n[http]\nport = {port}\n"
    configuration = tmp_path / "edge-agent.toml"
    configuration.write_text(text, encoding="utf-8")
    unit = UNITS / "edge-agent.service"
    try:
        assert await supervised(unit, configuration, tmp_path, watchdog_s=6) == 0
    finally:
        release_port(port)


async def test_the_hubs_command_becomes_ready_lives_and_stops(tmp_path: Path, hub_nats: NatsServer):
    port = free_port()
    sample = (UNITS.parent / "cloud-hub.toml").read_text(encoding="utf-8")
    text = sample.replace("nats://127.0.0.1:4222", hub_nats.url)
    text = text.replace("http://127.0.0.1:8222", hub_nats.monitor_url)
    text = text.replace("/var/lib/skerry-hub", f"{tmp_path}/data") + f"\n[http]\nport = {port}\n"
    configuration = tmp_path / "cloud-hub.toml"
    configuration.write_text(text, encoding="utf-8")
    unit = UNITS / "cloud-hub.service"
    try:
        assert await supervised(unit, configuration, tmp_path, watchdog_s=6) == 0
    finally:
        release_port(port)
