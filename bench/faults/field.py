"""A running installation for a drill: broker, nats-server, hub, agent, sensors; all real processes.

    async with field(context) as site:                 # everything runs and is ready
        site.broker, site.server, site.hub, site.agent # bench.servers / bench.stack, also .log()
        await site.sensors(rate=1500)                  # a simulator starts; several may run
        await site.enough(20_000)                      # acknowledged readings, then the sensors stop
        await site.kill_agent()                        # keeps the loop lag, then SIGKILL
        balance = await site.settle(timeout_s=30)      # sensors done, hub caught up; the ledgers judged
        lag = await site.loop_lag()

`field(..., begin=False)` makes everything and starts the broker and nothing else; `hub_for`,
`agent_keys`, `agent_extra`, `hub_keys` shape the processes. Left in order, and killed if need be.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from dataclasses import field as made
from pathlib import Path
from typing import Any

from bench.faults.drill import DrillContext
from bench.faults.evidence import count_acknowledged, judge
from bench.faults.lag import LagFigures, LagWatch
from bench.faults.ledger import Balance
from bench.servers import Mosquitto, NatsServer, make_nats_server, mosquitto, nats_server
from bench.stack import BIN, SIMULATED, Agent, Hub, Keys, player, simulator, start, waiting_rows
from edge_agent.errors import EdgeError
from edge_agent.observe.control import ask_agent
from edge_agent.rehearse.proxy import Proxy

STREAMS = f"""
[[stream]]
name = "{{0}}/{{1}}"
topic = "sim/+"
{SIMULATED}
window = 8
hop = 8
"""
"""Takes what `edge-agent simulate --synthetic` sends; the stream is named as its topic."""
_POLL_S = 0.1
_SENSORS_S = 240.0
_START_S = 30.0
_FINISHED, _STOPPED = 0, 130


@dataclass(slots=True)
class Site:
    """The processes of one drill and its ledgers."""

    folder: Path
    broker: Mosquitto | NatsServer
    broker_url: str
    server: NatsServer
    hub: Hub
    agent: Agent
    lag: LagWatch
    link: Proxy | None = None
    ledgers: list[Path] = made(default_factory=list)
    _running: list[asyncio.subprocess.Process] = made(default_factory=list)

    async def start(self) -> None:
        """Starts what does not run yet: nats-server, hub, agent."""
        for process in (self.server, self.hub, self.agent):
            if not process.is_running():
                await process.start()

    async def sensors(self, *, rate: float, messages: int = 10_000_000, streams: int = 4) -> None:
        """Sensors begin to publish at QoS 1; each message once, until the broker has acknowledged it."""
        ledger = self.folder / f"sent-{len(self.ledgers)}.jsonl"
        command = simulator(self.broker_url, ledger, messages=messages, rate=rate, streams=streams)
        self._running.append(await start(command))
        self.ledgers.append(ledger)

    async def play(self, recording: Path, *, rate: float) -> None:
        """Sensors begin to publish a recording at QoS 1; else as `sensors`."""
        ledger = self.folder / f"sent-{len(self.ledgers)}.jsonl"
        command = player(self.broker_url, [recording], "--rate", rate, "--ledger", ledger)
        self._running.append(await start(command))
        self.ledgers.append(ledger)

    async def acknowledged(self) -> int:
        """How many readings the broker has acknowledged so far, as the sensors have written it down."""
        return await asyncio.to_thread(count_acknowledged, self.ledgers)

    async def enough(self, readings: int, *, timeout_s: float = _SENSORS_S) -> None:
        """Stops the sensors once so many readings are acknowledged; fails when it takes too long."""
        async with asyncio.timeout(timeout_s):
            while self.sending:
                if await self.acknowledged() >= readings:
                    break
                await asyncio.sleep(_POLL_S)
        for process in self._running:
            if process.returncode is None:
                process.send_signal(signal.SIGINT)
        await self.sensors_done(timeout_s=timeout_s)

    async def sensors_done(self, *, timeout_s: float = _SENSORS_S) -> None:
        """Returns once all sensors have ended; fails when one did not get everything acknowledged."""
        while self._running:
            process = self._running[0]
            out, err = await asyncio.wait_for(process.communicate(), timeout_s)
            summary = json.loads(out) if out else {}
            code, sent = process.returncode, summary.get("sent")
            ended = code in (_FINISHED, _STOPPED) and summary.get("acknowledged") == sent
            assert ended, f"sensors ended with {code}: {summary} {err.decode()}"
            self._running.pop(0)

    @property
    def sending(self) -> bool:
        """Whether a simulator still runs."""
        return any(process.returncode is None for process in self._running)

    async def status(self) -> dict[str, Any]:
        """The agent's own account, over its socket; raises EdgeError while it does not answer."""
        path = self.agent.data_dir / "agent.sock"
        found = await asyncio.to_thread(ask_agent, path, "status")
        assert isinstance(found, dict)
        return found

    async def keep_lag(self) -> None:
        """Notes the loop lag of the agent that runs; called before each of its ends."""
        await self.lag.take()

    async def kill_agent(self) -> None:
        """Notes the loop lag, then SIGKILL."""
        await self.keep_lag()
        await self.agent.kill()

    async def loop_lag(self) -> LagFigures:
        """The lag of all lives of the agent, this one included."""
        await self.keep_lag()
        return await self.lag.figures()

    async def settle(
        self, *, timeout_s: float, sensors_s: float = _SENSORS_S, streams: str = ""
    ) -> Balance:
        """The ledgers once the sensors are done and nothing waits, or at the end of the time.

        `streams` leaves others than those that begin so out of the comparison.
        """
        await self.sensors_done(timeout_s=sensors_s)
        await self.drained(timeout_s=timeout_s)
        return await asyncio.to_thread(judge, self.hub, self.ledgers, streams=streams)

    async def taken(self, *, timeout_s: float = 30.0) -> None:
        """Returns once the agent has stored every acknowledged message; for a device without a hub."""
        readings = await self.acknowledged()
        async with asyncio.timeout(timeout_s):
            while True:
                lane = (await self.status())["outbox"]["lanes"]["tel"]
                if lane["readings"] >= readings:
                    return
                await asyncio.sleep(_POLL_S)

    async def drained(self, *, timeout_s: float) -> float | None:
        """Seconds until the hub's database held every row and the broker every message; None: not in time."""
        begin_s = time.monotonic()
        while time.monotonic() - begin_s < timeout_s:
            if await self._quiet():
                return time.monotonic() - begin_s
            await asyncio.sleep(_POLL_S)
        return None

    async def _quiet(self) -> bool:
        """Whether nothing came in and nothing waits, seen twice."""
        seen = []
        for _ in range(2):
            try:
                status = await self.status()
            except EdgeError:
                return False
            if waiting_rows(status):
                return False
            seen.append((status["messages"], status["uptime_s"] < 1.0))
            await asyncio.sleep(_POLL_S)
        return seen[0] == seen[1] and not seen[1][1]

    async def close(self) -> None:
        """Ends the simulators and the three processes."""
        for process in self._running:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        await self.lag.close()
        for server in (self.agent, self.hub, self.server):
            await server.kill()


@asynccontextmanager
async def field(
    context: DrillContext,
    *,
    mqtt: str = "mosquitto",
    agent_extra: str = STREAMS,
    agent_keys: Keys | None = None,
    hub_keys: Keys | None = None,
    hub_command: Sequence[str] | None = None,
    hub_environment: Mapping[str, str] | None = None,
    agent_hub_url: str | None = None,
    agent_environment: Mapping[str, str] | None = None,
    agent_prefix: Sequence[str] = (),
    distant: bool = False,
    server_conf: str = "",
    begin: bool = True,
) -> AsyncIterator[Site]:
    """An installation in the drill's folder; `mqtt` is the field's broker, "mosquitto" or "nats".

    `distant` puts a proxy between agent and nats-server, `site.link`; `agent_hub_url` is what the agent
    calls its hub, for another one in between. `server_conf` is appended to the configuration of the
    hub's nats-server.
    """
    folder = context.folder
    async with AsyncExitStack() as stack:
        broker, port = await _broker(stack, folder, mqtt)
        url = f"mqtt://{broker.host}:{port}"
        server = await make_nats_server(folder, name="hub-nats", extra_conf=server_conf)
        link: Proxy | None = None
        if distant:
            link = await stack.enter_async_context(Proxy(target_port=server.port, rng=context.rng))
            agent_hub_url = f"nats://{server.host}:{link.port}"
        hub = Hub(
            folder / "hub",
            server,
            keys=hub_keys,
            command=hub_command or (str(BIN / "cloud-hub"),),
            environment=hub_environment,
            start_timeout_s=_START_S,
        )
        agent = Agent(
            folder / "device",
            broker=url,
            hub=agent_hub_url or server.url,
            extra=agent_extra,
            keys=agent_keys,
            environment=agent_environment,
            prefix=agent_prefix,
            start_timeout_s=_START_S,
        )
        site = Site(folder, broker, url, server, hub, agent, LagWatch(folder, agent), link)
        stack.push_async_callback(site.close)
        await site.lag.start()
        if begin:
            await site.start()
        yield site


async def _broker(
    stack: AsyncExitStack, folder: Path, mqtt: str
) -> tuple[Mosquitto | NatsServer, int]:
    """The field's broker, running for as long as the stack, and its MQTT port."""
    if mqtt == "mosquitto":
        broker = await stack.enter_async_context(mosquitto(folder))
        return broker, broker.port
    server = await stack.enter_async_context(nats_server(folder, name="field", mqtt=True))
    return server, server.mqtt_port
