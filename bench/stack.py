"""A device and the hub as real processes, for journeys; and the ledgers that judge them."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

from bench.ports import free_port
from bench.process import ServerProcess
from bench.servers import NatsServer

BIN = Path(sys.executable).parent
REPO = Path(__file__).resolve().parents[1]
MODELS = REPO / "models"
SIMULATED = "channels = {a = {}, b = {}, c = {}, d = {}}"
"""The channels of `edge-agent simulate --synthetic`."""
Keys = Mapping[str, Mapping[str, object]]
"""Keys of configuration tables, by table."""


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Agent(ServerProcess):
    """An `edge-agent run` with a free health port and its own data folder.

    `extra` is appended to the configuration as it is; `keys` are set in the tables that are written
    anyway, `{"hub": {"publish_timeout_s": 2}}`. `prefix` is a command that runs the agent in its own
    place (`("prlimit", "--nofile=64")`, `("strace", "-D", …)`), `environment` is added to ours.
    """

    def __init__(
        self,
        home: Path,
        *,
        broker: str,
        hub: str | None,
        extra: str = "",
        keys: Keys | None = None,
        data_dir: Path | None = None,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = 15.0,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.config = home / "edge-agent.toml"
        self.data_dir = data_dir or home / "data"
        self.http_port = free_port()
        self._broker = broker
        self._hub = hub
        self._ready_path = "/readyz"
        self.configure(extra, keys=keys)
        super().__init__(
            "agent",
            command=[*prefix, str(BIN / "edge-agent"), "run", "--config", str(self.config)],
            log_path=home / "agent.log",
            probe=lambda: _answers(self.http_port, self._ready_path),
            environment=environment,
            start_timeout_s=start_timeout_s,
        )

    def configure(self, extra: str, *, keys: Keys | None = None) -> None:
        """Writes the configuration; it holds from the next start on."""
        tables: dict[str, dict[str, object]] = {
            "device": {"name": "journey", "data_dir": str(self.data_dir)},
            "broker": {"url": self._broker},
            "hub": {
                **({} if self._hub is None else {"url": self._hub}),
                "reconnect_jitter_s": 0.2,
                "drain_jitter_s": 0.2,
                "drain_state_interval_s": 0.5,
                "probe_interval_s": 1,
            },
            "http": {"port": self.http_port},
        }
        self.config.write_text(_toml(tables, keys) + extra + "\n", encoding="utf-8")

    async def start_without_broker(self) -> None:
        """Starts it and returns once it lives: it cannot be ready without a broker."""
        self._ready_path = "/livez"
        try:
            await self.start()
        finally:
            self._ready_path = "/readyz"

    async def terminate(self) -> tuple[int, float]:
        """SIGTERM; returns the exit code and the seconds it took."""
        child = self._child
        assert child is not None
        begin = time.monotonic()
        child.terminate()
        code = await asyncio.to_thread(child.wait, 20)
        self._child = None
        return code, time.monotonic() - begin

    async def status(self) -> dict[str, Any]:
        """What `edge-agent status --json` prints."""
        out = await command("edge-agent", "status", "--json", "--config", self.config)
        found: dict[str, Any] = json.loads(out)
        return found

    async def status_when(
        self, condition: Callable[[dict[str, Any]], object], *, timeout_s: float = 20
    ) -> dict[str, Any]:
        """The status once the condition holds; fails at the end of the time."""
        deadline = time.monotonic() + timeout_s
        while True:
            status = await self.status()
            if condition(status):
                return status
            assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {status}"

    def log(self) -> list[dict[str, Any]]:
        """The lines of its log so far."""
        lines = self.log_path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


class Hub(ServerProcess):
    """A `cloud-hub serve` on a real NATS server; `keys`, `environment` and `prefix` as in `Agent`.

    `command` stands in the place of `cloud-hub`, for a launcher of our own.
    """

    def __init__(
        self,
        home: Path,
        server: NatsServer,
        *,
        packages: tuple[Path, ...] = (),
        extra: str = "",
        keys: Keys | None = None,
        data_dir: Path | None = None,
        command: Sequence[str] = (str(BIN / "cloud-hub"),),
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = 15.0,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.config = home / "cloud-hub.toml"
        self.http_port = free_port()
        self.data_dir = data_dir or home / "data"
        self.database = self.data_dir / "hub.db"
        tables: dict[str, dict[str, object]] = {
            "nats": {
                "url": server.url,
                "monitor_url": server.monitor_url,
                "max_stream_bytes": 268435456,
                "reconnect_jitter_s": 0.2,
            },
            "store": {"data_dir": str(self.data_dir)},
            "models": {"packages": [str(package) for package in packages]},
            "ingest": {"ack_wait_s": 2},
            "http": {"port": self.http_port},
        }
        self.config.write_text(_toml(tables, keys) + extra + "\n", encoding="utf-8")
        super().__init__(
            "hub",
            command=[*prefix, *command, "serve", "--config", str(self.config)],
            log_path=home / "hub.log",
            probe=lambda: _answers(self.http_port, "/readyz"),
            environment=environment,
            start_timeout_s=start_timeout_s,
        )

    async def ask(self, *args: object) -> Any:
        """What a read command of `cloud-hub` prints as JSON."""
        return json.loads(await command("cloud-hub", *args, "--json", "--config", self.config))

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The answer of the database to a query, none while there is no database; call off the loop."""
        if not self.database.exists():
            return []
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            return connection.execute(statement).fetchall()

    def stored(self) -> Counter[tuple[str, float]]:
        """How often each reading (stream, time) is in the database; call off the loop."""
        found: Counter[tuple[str, float]] = Counter()
        for stream, times in self.rows("SELECT stream, times FROM telemetry"):
            found.update((stream, moment) for moment in np.frombuffer(times, "<f8").tolist())
        return found

    async def wait_for(self, readings: int, *, timeout_s: float) -> Counter[tuple[str, float]]:
        """The database once it holds so many different readings, or at the end of the time."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = await asyncio.to_thread(self.stored)
            if len(found) >= readings or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.2)


def stream_of_model(name: str, *, topic: str, channels: str, family: str) -> str:
    """The tables of a stream that a package of `models/` scores."""
    return f"""
[[model]]
package = "{MODELS / family / "package"}"
[[stream]]
name = "{name}"
topic = "{topic}"
time = "recorded"
channels = {channels}
model = "{family}"
"""


def waiting_rows(status: dict[str, Any]) -> int:
    """Rows that the hub's database does not hold yet, as the device knows it."""
    lanes = status["outbox"]["lanes"].values()
    return sum(lane["next_seq"] - 1 - lane["applied"] for lane in lanes)


async def run(name: str, *args: object, stdin: bytes = b"") -> Ended:
    """Runs one of our commands to its end."""
    process = await asyncio.create_subprocess_exec(
        str(BIN / name),
        *map(str, args),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate(stdin)
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def command(name: str, *args: object) -> str:
    """The standard output of one of our commands; fails with its standard error when it does."""
    ended = await run(name, *args)
    assert ended.code == 0, f"{name} {args}: {ended.err}"
    return ended.out


def simulator(
    broker: str, ledger: Path, *, messages: int, rate: float, streams: int = 4
) -> list[object]:
    """The command of sensors that publish at QoS 1 until the broker has taken everything."""
    return [
        str(BIN / "edge-agent"), "simulate", "--broker", broker, "--synthetic", streams,
        "--messages", messages, "--rate", rate, "--qos", 1, "--ledger", ledger, "--json",
    ]  # fmt: skip


def player(broker: str, files: list[Path], *pace: object) -> list[object]:
    """The command of sensors that send recordings at QoS 1, at the given pace."""
    return [
        str(BIN / "edge-agent"), "simulate", "--broker", broker, "--input", *files,
        "--qos", 1, "--json", *pace,
    ]  # fmt: skip


async def start(args: list[object]) -> asyncio.subprocess.Process:
    """A command that runs from now on, its output read by `finished`."""
    return await asyncio.create_subprocess_exec(
        *map(str, args), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


async def finished(sensors: asyncio.subprocess.Process, *, timeout_s: float = 60) -> int:
    """How many messages of sensors that `start` started the broker has acknowledged."""
    out, err = await asyncio.wait_for(sensors.communicate(), timeout_s)
    assert sensors.returncode == 0, err.decode()
    return int(json.loads(out)["acknowledged"])


def acknowledged(ledger: Path) -> set[tuple[str, float]]:
    """The readings (topic, time) that the broker has acknowledged to the sensors."""
    lines = ledger.read_text(encoding="utf-8").splitlines()
    return {(entry["topic"], entry["t"]) for entry in map(json.loads, lines)}


def _toml(tables: Mapping[str, Mapping[str, object]], keys: Keys | None) -> str:
    """The tables as TOML, `keys` put over them; a value of JSON's kinds is one of TOML's."""
    lines: list[str] = []
    more = keys or {}
    for name in [*tables, *(each for each in more if each not in tables)]:
        values = {**tables.get(name, {}), **more.get(name, {})}
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


async def _answers(port: int, path: str) -> bool:
    async with httpx.AsyncClient(timeout=1) as client:
        try:
            reply = await client.get(f"http://127.0.0.1:{port}{path}")
        except httpx.HTTPError:
            return False
    return reply.status_code == 200
