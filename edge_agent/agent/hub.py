"""The agent's side of the hub: the link, what is forwarded, what is asked, and what comes down."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from contract.messages import LaneReport, Revision, StateAnswer, StateReport
from edge_agent.agent.asking import Asker
from edge_agent.agent.emitting import Emitter
from edge_agent.agent.ground import Keeping
from edge_agent.agent.ingest import Ingest
from edge_agent.agent.volatile import VolatileStore
from edge_agent.link.connection import Link
from edge_agent.link.inference import HubInference
from edge_agent.link.state import StateExchange
from edge_agent.observe.metrics import Counters, EscalationEnd
from edge_agent.outbox.forwarder import Forwarder
from edge_agent.outbox.store import Outbox
from edge_agent.settings import Settings
from edge_agent.types import Clock, LinkState


class HubSide:
    """Everything that exists only where a hub is configured; none of it is needed to answer."""

    def __init__(
        self,
        settings: Settings,
        *,
        outbox: Outbox | VolatileStore,
        ingest: Ingest,
        emitter: Emitter,
        counters: Counters,
        clock: Clock,
        report: Callable[[], StateReport],
        keeping: Keeping = Keeping.STORED,
    ) -> None:
        """Builds the parts; `works` are the tasks that run them."""
        device = settings.device.name
        self._outbox = outbox
        self._keeping = keeping
        self._emitter = emitter
        self._counters = counters
        self._link = Link(settings.hub, device=device, clock=clock)
        self._forwarder = Forwarder(
            outbox, self._link, device=device, settings=settings.hub, wake=outbox.committed
        )
        self._exchange = StateExchange(
            self._link,
            device=device,
            settings=settings.hub,
            report=report,
            on_answer=self._on_answer,
            draining=self._forwarder.draining,
        )
        self._link.on_nudge = self._exchange.nudge
        self._link.on_change = self._exchange.look
        self._asker = Asker(
            HubInference(self._link, device=device),
            clock=clock,
            late_s=settings.routing.late_answer_s,
            queue_unanswered=settings.routing.bulk_when_offline,
            settle=ingest.settle,
            revise=ingest.revise,
        )
        ingest.ask = self._asker.start

    @property
    def revised_to(self) -> int:
        """The highest revision of the hub that was given out."""
        return self._outbox.revised_to

    def state(self) -> LinkState:
        """The link now."""
        return self._link.state()

    def works(self) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """The tasks: their names and what they run."""
        return [
            ("link", self._link.run),
            ("forwarder", self._forwarder.run),
            ("state-exchange", self._exchange.run),
            ("asker", self._asker.watch),
        ]

    async def close(self) -> None:
        """Gives the local answers to all windows that wait for the hub."""
        await self._asker.close()

    async def _on_answer(self, report: StateReport, answer: StateAnswer) -> None:
        lanes: dict[str, LaneReport] = report.lanes
        await self._forwarder.on_watermarks(answer.watermarks, reported=lanes)
        fresh = [each for each in answer.revisions if each.seq > self._outbox.revised_to]
        if self._keeping is Keeping.VOLATILE:
            # Which of them were given out is written in the outbox; they come again when it is there.
            shown: list[Revision] = []
        else:
            shown = sorted(fresh, key=_seq)
        for revision in shown:
            given = self._emitter.recent.verdict(revision.verdict)
            self._emitter.revise(revision, given=given)
            self._counters.end_escalation(EscalationEnd.REVISED)
        if fresh:
            await self._outbox.mark_revised(max(each.seq for each in fresh))


def _seq(revision: Revision) -> int:
    return revision.seq
