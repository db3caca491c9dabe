"""What the agent serves to its machine: health and metrics over HTTP, and the command socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

from contract.status import Reason
from edge_agent.agent.emitting import Emitter
from edge_agent.agent.reporting import Reporter
from edge_agent.agent.socket import make_stand_in, remove_stand_in, socket_path
from edge_agent.errors import EdgeError
from edge_agent.observe.control import CannotListen, ControlServer, Handler
from edge_agent.observe.events import Event
from edge_agent.observe.export import AgentMetrics, Readouts
from edge_agent.observe.http import HealthServer
from edge_agent.observe.logs import get_logger
from edge_agent.observe.metrics import Counters
from edge_agent.settings import Settings
from edge_agent.types import JsonObject


class UnknownVerdict(EdgeError):
    """No verdict with that id is remembered."""


class NoOutbox(EdgeError):
    """There is no outbox to look into."""


class Serving:
    """Opens and closes all of it together."""

    def __init__(
        self, settings: Settings, reporter: Reporter, counters: Counters, emitter: Emitter
    ) -> None:
        """Nothing listens yet."""
        parts = reporter.parts
        self._emitter = emitter
        self._look = parts.inspect
        self._settings = settings
        self._commands: dict[str, Handler] = {
            "status": lambda _: _answer(reporter.status()),
            "explain": self._explain,
            "outbox": self._inspect,
        }
        self._stand_in: Path | None = None
        self._control = ControlServer(socket_path(settings), self._commands)
        metrics = AgentMetrics(
            counters,
            Readouts(
                brokers=parts.brokers,
                outbox=parts.outbox,
                link=parts.link if settings.hub.urls else lambda: None,
                streams=lambda: parts.pipeline.registry.count,
                oldest_undecided_s=lambda: parts.ingest.undecided_s,
            ),
        )
        self._http: HealthServer | None = None
        if settings.http.enabled:
            self._http = HealthServer(
                host=settings.http.host,
                port=settings.http.port,
                live=reporter.live,
                ready=reporter.ready,
                metrics=metrics.exposition,
            )

    async def start(self) -> None:
        """Listens from now on; raises ConfigurationError where an address cannot be had."""
        await self._start_control()
        if self._http is not None:
            await self._http.start()

    async def _start_control(self) -> None:
        """In the data folder; where that cannot hold a socket, at the stand-in or not at all."""
        try:
            await self._control.start()
        except CannotListen as error:
            log = get_logger()
            stand_in = await asyncio.to_thread(make_stand_in, self._settings)
            if stand_in is None:
                log.warning(Event.CONTROL_ELSEWHERE, path="", why=str(error))
                return
            self._stand_in = stand_in
            self._control = ControlServer(stand_in, self._commands)
            log.warning(Event.CONTROL_ELSEWHERE, path=str(stand_in), why=str(error))
            await self._control.start()

    async def close(self) -> None:
        """Stops listening."""
        if self._http is not None:
            await self._http.close()
        await self._control.close()
        if self._stand_in is not None:
            await asyncio.to_thread(remove_stand_in, self._stand_in)

    async def _inspect(self, _: JsonObject) -> object:
        if self._look is None:
            raise NoOutbox("the outbox cannot be opened at present: `edge-agent status` says why")
        return await self._look()

    async def _explain(self, args: JsonObject) -> object:
        wanted = str(args.get("id", ""))
        recent = self._emitter.recent
        if wanted == "last":
            wanted = next(iter(recent.latest(1)), "")
        found = recent.explain(wanted)
        if found is None:
            raise UnknownVerdict(
                f"no verdict {wanted!r} is remembered; the agent keeps the last 2,000 since its "
                "start. Ids stand in the verdicts on MQTT and in `edge-agent status`"
            )
        because = [{"reason": each, "text": Reason(each).text} for each in found["reasons"]]  # type: ignore[call-arg]
        return {**found, "because": because}


async def _answer(result: object) -> object:
    return result
