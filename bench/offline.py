"""A device under load whose hub has never existed: `python -m bench.offline --minutes 10 --json`.

Sensors publish through a real mosquitto at QoS 1, the agent answers, and its outbox fills up. All the
time the files on the disk, the state of the outbox and the deadlines are watched. In the end a
nats-server and a hub appear for the first time, and the ledgers are compared: what the sensors were
acknowledged, what the hub stored, and what the device declared as given up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from bench.ports import free_port
from bench.process import ServerProcess
from bench.servers import Mosquitto, NatsServer, make_nats_server, mosquitto
from edge_agent.observe.control import ask_agent
from edge_agent.observe.logs import KEY_FIELDS

BIN: Final = Path(sys.executable).parent
WINDOW: Final = 8
SAMPLE_S: Final = 0.25
STATUS_EVERY: Final = 8
"""Samples of the files for each look at the agent's own state."""
DRAIN_S: Final = 240.0
REPEAT_S: Final = 60.0

DEVICE = """
[device]
name = "offline"
data_dir = "{home}/device"
[broker]
url = "mqtt://{broker.host}:{broker.port}"
[hub]
url = "{hub.url}"
reconnect_jitter_s = 1
drain_jitter_s = 1
drain_state_interval_s = 0.5
probe_interval_s = 1
[outbox]
max_bytes = {max_bytes}
[http]
port = {port}
[[stream]]
name = "{{0}}/{{1}}"
topic = "sim/+"
channels = {{a = {{}}, b = {{}}, c = {{}}, d = {{}}}}
window = {window}
hop = {window}
"""
HUB = """
[nats]
url = "{hub.url}"
monitor_url = "{hub.monitor_url}"
[store]
data_dir = "{home}/hub"
[http]
port = {port}
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of the device."""

    seconds: float
    rate: float
    streams: int
    max_bytes: int


@dataclass(slots=True)
class Report:
    """What happened; readings unless a name says otherwise."""

    seconds: float = 0.0
    sent: int = 0
    messages_per_s: float = 0.0
    verdicts: int = 0
    verdicts_expected: int = 0
    missed_deadlines: int = 0
    latency_ms: dict[str, float] = field(default_factory=dict)
    cpu_share: float = 0.0
    rss_mb: float = 0.0
    budget_bytes: int = 0
    disk_bytes_max: int = 0
    outbox_faults: list[str] = field(default_factory=list)
    shed: dict[str, int] = field(default_factory=dict)
    drain_s: float = 0.0
    stored: int = 0
    duplicate: int = 0
    missing: int = 0
    phantom: int = 0
    """Stored, and never sent."""
    declared_gaps: int = 0
    gap_records: int = 0
    log_lines: int = 0
    log_repeats: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every promise held."""
        return (
            self.verdicts == self.verdicts_expected
            and self.missed_deadlines == 0
            and self.disk_bytes_max <= self.budget_bytes
            and not self.outbox_faults
            and self.duplicate == self.phantom == 0
            and self.missing == self.declared_gaps
            and not self.log_repeats
        )


async def offline(home: Path, load: Load) -> Report:
    """One run in an empty folder; raises ServerError or TimeoutError when something does not run."""
    report = Report(budget_bytes=load.max_bytes)
    hub_server = await make_nats_server(home, name="nats")
    async with mosquitto(home) as broker:
        agent = _agent(home, broker, hub_server, load)
        await agent.start()
        try:
            await _offline_stage(home, broker, load, report, agent)
            await _hub_appears(home, hub_server, report)
        finally:
            await agent.stop()
    report.log_lines, report.log_repeats = repeats(agent.log_path)
    return report


async def _offline_stage(
    home: Path, broker: Mosquitto, load: Load, report: Report, agent: ServerProcess
) -> None:
    begin_s = time.monotonic()
    sensors = await asyncio.create_subprocess_exec(
        *_sensors(home, broker, load),
        stdout=asyncio.subprocess.PIPE,
    )
    watch = asyncio.create_task(_watch(home, report), name="watch")
    try:
        async with asyncio.timeout(load.seconds * 3 + 60):
            out, _ = await sensors.communicate()
            report.sent = json.loads(out)["acknowledged"]
            report.seconds = round(time.monotonic() - begin_s, 1)
            status = await _status(home)
            while status["readings"] < report.sent:
                await asyncio.sleep(SAMPLE_S)
                status = await _status(home)
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    _look(home, report, status)
    report.messages_per_s = round(report.sent / report.seconds)
    report.verdicts = sum(status["verdicts"].values())
    share, rest = divmod(report.sent, load.streams)
    report.verdicts_expected = rest * ((share + 1) // WINDOW) + (load.streams - rest) * (
        share // WINDOW
    )
    report.latency_ms = status["stages_ms"].get("total", {})
    report.cpu_share, report.rss_mb = await asyncio.to_thread(_process, agent.pid, report.seconds)


async def _hub_appears(home: Path, server: NatsServer, report: Report) -> None:
    hub = _hub(home, server)
    await server.start()
    try:
        await hub.start()
        begin_s = time.monotonic()
        try:
            async with asyncio.timeout(DRAIN_S):
                while _waiting(status := await _status(home)):
                    _look(home, report, status)
                    await asyncio.sleep(SAMPLE_S)
        finally:
            report.drain_s = round(time.monotonic() - begin_s, 1)
            await hub.stop()
    finally:
        await server.stop()
    await asyncio.to_thread(_compare, home, report)


async def _watch(home: Path, report: Report) -> None:
    count = 0
    while True:
        report.disk_bytes_max = max(report.disk_bytes_max, _disk_bytes(home))
        if count % STATUS_EVERY == 0:
            _look(home, report, await _status(home))
        count += 1
        await asyncio.sleep(SAMPLE_S)


def _look(home: Path, report: Report, status: dict[str, Any]) -> None:
    outbox = status["outbox"]
    report.disk_bytes_max = max(report.disk_bytes_max, outbox["bytes"], _disk_bytes(home))
    report.missed_deadlines = status["deadline_misses"]
    report.shed = outbox["shed"]
    if outbox["fault"] and outbox["fault"] not in report.outbox_faults:
        report.outbox_faults.append(outbox["fault"])


def _disk_bytes(home: Path) -> int:
    """What the outbox takes: the file and its log."""
    folder = home / "device" / "outbox"
    return sum(each.stat().st_size for each in folder.glob("spool.db*"))


async def _status(home: Path) -> dict[str, Any]:
    found = await asyncio.to_thread(ask_agent, home / "device" / "agent.sock", "status")
    assert isinstance(found, dict)
    return found


def _waiting(status: dict[str, Any]) -> int:
    lanes = status["outbox"]["lanes"].values()
    return sum(lane["next_seq"] - 1 - lane["applied"] for lane in lanes)


def _compare(home: Path, report: Report) -> None:
    sent: dict[str, list[float]] = defaultdict(list)
    with (home / "sent.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            sent[entry["topic"]].append(entry["t"])
    stored: dict[str, list[np.ndarray]] = defaultdict(list)
    with closing(sqlite3.connect(f"file:{home}/hub/hub.db?mode=ro", uri=True)) as connection:
        for stream, times in connection.execute("SELECT stream, times FROM telemetry"):
            stored[stream].append(np.frombuffer(times, "<f8"))
        gaps = connection.execute(
            "SELECT count(*), sum(readings) FROM gaps WHERE gap_lane = 'tel'"
        ).fetchone()
    report.gap_records, report.declared_gaps = gaps[0], gaps[1] or 0
    for topic, times in sent.items():
        found = np.concatenate(stored.get(topic) or [np.empty(0)])
        unique = np.unique(found)
        report.stored += len(found)
        report.duplicate += len(found) - len(unique)
        report.missing += int((~np.isin(np.asarray(times), unique)).sum())
        report.phantom += int((~np.isin(unique, np.asarray(times))).sum())


def repeats(log_path: Path) -> tuple[int, list[str]]:
    """The number of lines in an agent's log, and the events that it holds twice within a minute."""
    lines = [json.loads(line) for line in log_path.read_text(encoding="utf-8").splitlines()]
    last: dict[tuple[str, ...], np.datetime64] = {}
    found: list[str] = []
    for line in lines:
        kind = (line["event"], *(str(line.get(key)) for key in KEY_FIELDS))
        moment = np.datetime64(line["timestamp"].removesuffix("Z"))
        before = last.get(kind)
        if before is not None and moment - before < np.timedelta64(int(REPEAT_S * 1e3) - 50, "ms"):
            found.append(line["event"])
        last[kind] = moment
    return len(lines), found


def _process(pid: int, seconds: float) -> tuple[float, float]:
    """The CPU seconds that a process took for each of these, and its memory in MB."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / 100
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return round(cpu_s / seconds, 3), round(pages * 4096 / 1e6, 1)


def _sensors(home: Path, broker: Mosquitto, load: Load) -> list[str]:
    messages = int(load.seconds * load.rate)
    return [
        str(BIN / "edge-agent"), "simulate", "--broker", f"mqtt://{broker.host}:{broker.port}",
        "--synthetic", str(load.streams), "--rate", str(load.rate), "--messages", str(messages),
        "--qos", "1", "--window", "500", "--ledger", str(home / "sent.jsonl"), "--json",
    ]  # fmt: skip


def _agent(home: Path, broker: Mosquitto, hub: NatsServer, load: Load) -> ServerProcess:
    port, config = free_port(), home / "edge-agent.toml"
    text = DEVICE.format(
        home=home, broker=broker, hub=hub, max_bytes=load.max_bytes, port=port, window=WINDOW
    )
    config.write_text(text, encoding="utf-8")
    command = [str(BIN / "edge-agent"), "run", "--config", str(config)]
    return ServerProcess(
        "agent", command=command, log_path=home / "agent.log", probe=lambda: _ready(port)
    )


def _hub(home: Path, server: NatsServer) -> ServerProcess:
    port, config = free_port(), home / "cloud-hub.toml"
    config.write_text(HUB.format(home=home, hub=server, port=port), encoding="utf-8")
    command = [str(BIN / "cloud-hub"), "serve", "--config", str(config)]
    return ServerProcess(
        "hub", command=command, log_path=home / "hub.log", probe=lambda: _ready(port)
    )


async def _ready(port: int) -> bool:
    async with httpx.AsyncClient(timeout=1) as client:
        try:
            reply = await client.get(f"http://127.0.0.1:{port}/readyz")
        except httpx.HTTPError:
            return False
    return reply.status_code == 200


def main() -> int:
    """Prints the report; exit code 0 only if every promise held."""
    parser = argparse.ArgumentParser(prog="python -m bench.offline", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=5000.0, help="messages a second")
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--max-bytes", type=int, default=64 * 1024 * 1024, help="the budget")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    load = Load(args.minutes * 60, args.rate, args.streams, args.max_bytes)
    with tempfile.TemporaryDirectory(prefix="skerry-offline-") as folder:
        report = asyncio.run(offline(Path(folder), load))
    shown = {**asdict(report), "ok": report.ok}
    if args.json:
        print(json.dumps(shown))
    else:
        for name, value in shown.items():
            print(f"{name:>18}: {value}")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
