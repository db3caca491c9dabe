"""`python -m bench.edge --json`: throughput, latency, memory and start-up of one edge agent.

Figures, all of one agent process on this machine, with its broker and the load beside it:

* `throughput.qos0`: broker socket to decision. 100 streams of 4-channel JSON at QoS 0, an INT8
  autoencoder (128-64-16-64-128) due at every 8th reading, verdicts published, rows stored.
* `latency_ms`: publish to verdict on MQTT, each reading scored, evenly sent at 100 and 1,000 a second.
* `rss_mb`: resident memory of the agent after all of it.
* `disk_mb`: the base install on the disk.
* `start_s`: from spawning the process to its first verdict; the median of three.
* `peers.bare_paho`: the same load into stock paho that only counts.

The agent is a base install, as a device has it (`bench/base_install.py`); `--here` measures the one of
this environment instead.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any

from bench.agent import LOAD, AgentUnderTest
from bench.bare_paho import BarePaho
from bench.base_install import base_install, disk_mb
from bench.latency import VerdictClock, percentile
from bench.mqtt_wire import WireClient
from bench.servers import Mosquitto, NatsServer, mosquitto, nats_server
from bench.throughput import Throughput, saturate
from bench.toy_package import build_toy_package

RATES_PER_S = (100, 1000)
_START_LIMIT_S = 20.0
_STARTS = 3

Say = Callable[[str], None]


def main() -> int:
    """Measures and prints; 0 when all figures could be taken."""
    parser = argparse.ArgumentParser(prog="python -m bench.edge", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON (and nothing else)")
    parser.add_argument("--broker", choices=("nats-server", "mosquitto"), default="nats-server")
    parser.add_argument(
        "--here",
        action="store_true",
        help="measure the agent of this environment, not a base install",
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each measurement")
    options = parser.parse_args()
    commands = None
    if not options.here:
        _say("installing the agent as on a device")
        commands = base_install()
    figures = asyncio.run(
        measure(options.broker, seconds=options.seconds, say=_say, commands=commands)
    )
    if commands is not None:
        figures["disk_mb"] = round(disk_mb(), 1)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        print("\n".join(f"{name:<32}{value}" for name, value in flat(figures)))
    return 0


async def measure(
    broker: str, *, seconds: float, say: Say, commands: Path | None = None
) -> dict[str, Any]:
    """All figures, with a broker of its own, in a folder of its own."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skerry-bench-")))
        package = folder / "package"
        say("building the model")
        await asyncio.to_thread(build_toy_package, package)
        server: NatsServer | Mosquitto
        if broker == "mosquitto":
            server = await stack.enter_async_context(mosquitto(folder))
            port = server.port
        else:
            server = await stack.enter_async_context(nats_server(folder, mqtt=True))
            port = server.mqtt_port
        bench = _Bench(
            folder, package=package, host=server.host, port=port, say=say, commands=commands
        )
        start_s = [await bench.start_up(number) for number in range(_STARTS)]
        agent = bench.agent("agent")
        stack.callback(agent.stop)
        agent.start()
        await agent.ready()
        latency_ms = await asyncio.to_thread(bench.latencies, seconds)
        throughput = await asyncio.to_thread(bench.throughput, agent, seconds)
        _, rss_mb = agent.usage()
        await asyncio.to_thread(agent.stop)
        bare = await asyncio.to_thread(bench.bare_paho, seconds / 2)
    return {
        "throughput": {"qos0": {"broker": broker, **_rates(throughput)}},
        "latency_ms": latency_ms,
        "rss_mb": round(rss_mb, 1),
        "start_s": round(median(start_s), 3),
        "peers": {
            "bare_paho": {
                **_rates(bare),
                "agent_to_bare": round(throughput.messages_per_s / bare.messages_per_s, 2),
            }
        },
    }


def flat(figures: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested figures as lines."""
    lines: list[tuple[str, Any]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            lines += flat(value, f"{prefix}{name}.")
        else:
            lines.append((prefix + name, value))
    return lines


class _Bench:
    """The measurements, against one broker."""

    def __init__(
        self,
        folder: Path,
        *,
        package: Path,
        host: str,
        port: int,
        say: Say,
        commands: Path | None,
    ) -> None:
        self._commands = commands
        self.url = f"mqtt://{host}:{port}"
        self._folder = folder
        self._package = package
        self._host, self._port = host, port
        self._say = say

    def agent(self, name: str) -> AgentUnderTest:
        """A fresh agent, not started."""
        return AgentUnderTest(
            self._folder / name,
            package=self._package,
            broker_url=self.url,
            commands=self._commands,
        )

    async def start_up(self, number: int) -> float:
        """Seconds from the spawning of a fresh agent to its first verdict."""
        self._say("start-up")
        agent = self.agent(f"start-{number}")
        clock = await asyncio.to_thread(VerdictClock, self._host, self._port)
        try:
            began_s = agent.start()
            came_s = await asyncio.to_thread(clock.until_first_verdict, timeout_s=_START_LIMIT_S)
        finally:
            await asyncio.to_thread(agent.stop)
            await asyncio.to_thread(clock.close)
        return came_s - began_s

    def latencies(self, seconds: float) -> dict[str, dict[str, float]]:
        """p50 and p99 in ms for each rate."""
        found = {}
        with closing(VerdictClock(self._host, self._port)) as clock:
            clock.fill()
            for rate in RATES_PER_S:
                self._say(f"latency at {rate} a second")
                values = clock.measure(rate_per_s=rate, warm_up_s=1.0, seconds=seconds)
                found[str(rate)] = {
                    "p50": round(percentile(values, 50), 3),
                    "p99": round(percentile(values, 99), 3),
                }
        return found

    def throughput(self, agent: AgentUnderTest, seconds: float) -> Throughput:
        """What the agent takes from the saturated broker."""
        self._say("throughput")
        with closing(WireClient(self._host, self._port, client_id="bench-load")) as client:
            return saturate(
                client,
                counted=lambda: int(agent.status()["messages"]),
                cpu_s=lambda: agent.usage()[0],
                warm_up_s=1.5,
                seconds=seconds,
            )

    def bare_paho(self, seconds: float) -> Throughput:
        """What stock paho takes of the same load."""
        self._say("stock paho")
        bare = BarePaho(self._host, self._port, f"{LOAD}/+")
        try:
            with closing(WireClient(self._host, self._port, client_id="bench-load")) as client:
                return saturate(
                    client,
                    counted=lambda: bare.counted,
                    cpu_s=bare.cpu_s,
                    warm_up_s=1.0,
                    seconds=seconds,
                )
        finally:
            bare.stop()


def _rates(measured: Throughput) -> dict[str, float]:
    return {
        "messages_per_s": round(measured.messages_per_s),
        "cpu_us_per_message": round(measured.cpu_us_per_message, 2),
    }


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
