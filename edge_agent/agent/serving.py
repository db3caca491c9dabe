"""What the agent serves to its machine: health and metrics over HTTP, the command socket, systemd."""

from __future__ import annotations

from contract.status import Reason
from edge_agent.agent.emitting import Emitter
from edge_agent.agent.reporting import Reporter
from edge_agent.agent.socket import socket_path
from edge_agent.errors import EdgeError
from edge_agent.observe.control import ControlServer
from edge_agent.observe.export import AgentMetrics, Readouts
from edge_agent.observe.http import HealthServer
from edge_agent.observe.metrics import Counters
from edge_agent.observe.sd_notify import Supervisor
from edge_agent.settings import Settings
from edge_agent.types import JsonObject


class UnknownVerdict(EdgeError):
    """No verdict with that id is remembered."""


class Serving:
    """Opens and closes all of it together."""

    def __init__(
        self, settings: Settings, reporter: Reporter, counters: Counters, emitter: Emitter
    ) -> None:
        """Nothing listens yet."""
        parts = reporter.parts
        self._emitter = emitter
        self._supervisor = Supervisor(settings.notify_socket)
        self._control = ControlServer(
            socket_path(settings),
            {"status": lambda _: _answer(reporter.status()), "explain": self._explain},
        )
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
        await self._control.start()
        if self._http is not None:
            await self._http.start()

    def ready(self) -> None:
        """Tells systemd that the agent runs."""
        self._supervisor.ready()

    def stopping(self) -> None:
        """Tells systemd that the agent drains."""
        self._supervisor.stopping()

    async def close(self) -> None:
        """Stops listening."""
        if self._http is not None:
            await self._http.close()
        await self._control.close()

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
