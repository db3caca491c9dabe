"""The three servers around the agent: the real ones where they are installed, else the built-in stand-ins."""

from __future__ import annotations

import asyncio
import getpass
import importlib.util
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from edge_agent.rehearse.children import Child, python
from edge_agent.rehearse.mqtt_packets import CONNACK
from edge_agent.rehearse.ports import HOST, free_port
from edge_agent.rehearse.toml_text import toml_of

_PROBE_S: Final = 1.0
_MOST_HTTP_BYTES: Final = 1024 * 1024
_MQTT_CONNECT: Final = b"\x10\x11\x00\x04MQTT\x04\x02\x00\x05\x00\x05probe"
_NEEDED_BY_HUB: Final = ("cloud_hub", "sqlalchemy", "aiosqlite", "httpx", "typer", "rich")
STAND_IN: Final = "stand-in"


class Choice(Enum):
    """Which servers a rehearsal uses."""

    AUTO = "auto"
    """Real ones where they are installed."""
    STAND_IN = "stand-in"
    """The built-in ones alone."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The real programs that are used; None stands for the stand-in."""

    mosquitto: str | None = None
    nats_server: str | None = None
    cloud_hub: str | None = None

    def names(self) -> dict[str, str]:
        """What stands for each of the three, for the sheet."""
        return {
            "broker": f"mosquitto ({self.mosquitto})" if self.mosquitto else STAND_IN,
            "server": f"nats-server ({self.nats_server})" if self.nats_server else STAND_IN,
            "hub": f"cloud-hub ({self.cloud_hub})" if self.cloud_hub else STAND_IN,
        }


def find_programs(choice: Choice) -> Programs:
    """What is installed. A real hub needs a real server, whose monitoring it asks."""
    if choice is Choice.STAND_IN:
        return Programs()
    scripts = sysconfig.get_path("scripts")
    mosquitto = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    server = shutil.which("nats-server", path=scripts) or shutil.which("nats-server")
    hub = Path(sys.executable).parent / "cloud-hub"
    there = hub.exists() and all(importlib.util.find_spec(name) for name in _NEEDED_BY_HUB)
    return Programs(mosquitto, server, str(hub) if there and server else None)


def make_broker(programs: Programs, *, folder: Path, port: int) -> Child:
    """The field's broker, not started."""
    home = folder / "broker"
    home.mkdir(parents=True, exist_ok=True)
    if programs.mosquitto is None:
        command = python("mqtt_broker", "--port", port)
    else:
        lines = [
            f"user {getpass.getuser()}",
            f"listener {port} {HOST}",
            "allow_anonymous true",
            "persistence false",
            "max_queued_messages 0",
            "max_inflight_messages 20000",
            "log_dest stderr",
            "log_type warning",
        ]
        (home / "mosquitto.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [programs.mosquitto, "-c", str(home / "mosquitto.conf")]
    return Child("broker", command=command, home=home, ready=lambda: speaks_mqtt(port))


def make_server(programs: Programs, *, folder: Path, port: int, monitor_port: int) -> Child:
    """The hub's NATS server, not started."""
    home = folder / "server"
    home.mkdir(parents=True, exist_ok=True)
    if programs.nats_server is None:
        command = python("nats_server", "--port", port, "--store", home / "streams.db")
    else:
        lines = [
            'server_name: "rehearsal"',
            f"listen: {HOST}:{port}",
            f"http: {HOST}:{monitor_port}",
            "max_payload: 262144",
            f'jetstream {{ store_dir: "{home / "store"}", sync_interval: always }}',
        ]
        (home / "server.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [programs.nats_server, "-c", str(home / "server.conf")]
    return Child("server", command=command, home=home, ready=lambda: greets(port, b"INFO "))


def write_hub_configuration(path: Path, *, port: int, monitor_port: int, http_port: int) -> None:
    """The configuration of a real hub on the scratch server."""
    tables = {
        "nats": {
            "url": f"nats://{HOST}:{port}",
            "monitor_url": f"http://{HOST}:{monitor_port}",
            "max_stream_bytes": 256 * 1024 * 1024,
            "reconnect_jitter_s": 0.2,
        },
        "store": {"data_dir": str(path.parent / "data")},
        "ingest": {"ack_wait_s": 2},
        "http": {"port": http_port},
    }
    path.write_text(toml_of(tables), encoding="utf-8")


async def greets(port: int, greeting: bytes) -> bool:
    """Whether a server on loopback says this first."""
    return (await _exchange(port, b"", len(greeting))).startswith(greeting)


async def speaks_mqtt(port: int) -> bool:
    """Whether a CONNECT is answered."""
    return (await _exchange(port, _MQTT_CONNECT, 4))[:1] == bytes([CONNACK << 4])


async def is_well(port: int, path: str) -> bool:
    """Whether an HTTP server on loopback answers 200."""
    return b" 200 " in (await http_text(port, path)).split(b"\r\n", 1)[0]


async def http_text(port: int, path: str) -> bytes:
    """What an HTTP server on loopback answers, head and body."""
    request = f"GET {path} HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode()
    return await _exchange(port, request, _MOST_HTTP_BYTES)


def free_ports(count: int) -> list[int]:
    """Some ports of our own."""
    return [free_port() for _ in range(count)]


async def _exchange(port: int, send: bytes, enough: int) -> bytes:
    """What a server says, at least so many bytes, or until its end or a second is over."""
    received = b""
    try:
        async with asyncio.timeout(_PROBE_S):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(send)
                while len(received) < enough and (chunk := await reader.read(4096)):
                    received += chunk
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):
        return received
    return received
