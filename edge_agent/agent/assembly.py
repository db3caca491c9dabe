"""One agent, put together from its rooms: what runs in it, in which order it ends.

It is ready without the hub and without ever having seen it. A task that dies ends the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from contract.status import Reason
from edge_agent.agent.brokers import Brokers
from edge_agent.agent.emitting import Emitter
from edge_agent.agent.ground import Ground, Keeping
from edge_agent.agent.ingest import Ingest, read_pending
from edge_agent.agent.progress import Progress
from edge_agent.agent.reporting import Parts, Reporter, no_link
from edge_agent.agent.serving import Serving
from edge_agent.agent.starts import Phase
from edge_agent.agent.subscriptions import (
    Filters,
)
from edge_agent.agent.volatile import VolatileStore
from edge_agent.agent.watchdog import Watchdog
from edge_agent.errors import StoreError
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.observe.loop_lag import watch_loop_lag
from edge_agent.observe.metrics import Counters
from edge_agent.observe.rollups import Rollups
from edge_agent.outbox.store import Outbox
from edge_agent.outputs.mqtt import MqttOutput
from edge_agent.pipeline.core import Pipeline
from edge_agent.sources.mqtt import MqttSource
from edge_agent.sources.redelivery import Redelivery
from edge_agent.types import LinkState, Recovery
from edge_agent.version import VERSION

if TYPE_CHECKING:
    from edge_agent.agent.hub import HubSide

STOP_S = 4.5
"""An orderly end takes no longer, whatever the disk and the brokers do."""
_STORE_S = 2.2
"""What of it is left for storing and saying goodbye."""
_GOODBYE_S = 0.8
_WORKERS_END_S = 0.5
HEALTH_EVERY_S = 30.0
TICK_S = 1.0
HEARD_S = 60.0
"""How long the verdicts of the last run wait for a broker to hear them."""
_POLL_S = 0.05

Work = tuple[str, Callable[[], Coroutine[Any, Any, None]]]
"""A task to be: its name and what it does."""


class Agent:
    """One run of the agent, which takes up what was known."""

    def __init__(
        self,
        ground: Ground,
        *,
        outbox: Outbox | VolatileStore,
        recovery: Recovery,
        past: Filters,
        keeping: Keeping = Keeping.STORED,
    ) -> None:
        """Builds every part; nothing runs yet. `past` are the filters the brokers may remember."""
        settings = ground.settings
        self._ground = ground
        self._settings = settings
        self._keeping = keeping
        self._log = get_logger(device=settings.device.name)
        self._clock = ground.clock
        self._outbox = outbox
        self._counters = Counters()
        self._rollups = Rollups(
            interval_s=settings.outbox.rollup_interval_s, now_s=self._clock.wall_s()
        )
        self._pipeline = Pipeline(
            settings, ground.loaded.scorers, clock=self._clock, epoch=recovery.epoch
        )
        restored = self._pipeline.recover(recovery)
        self._brokers = Brokers(settings, past=past, keeping=keeping, clock=ground.clock)
        self._output = MqttOutput(
            self._brokers.sessions,
            prefix=settings.prefix,
            verdict_qos=settings.output.verdict_qos,
            verdicts=settings.output.verdicts,
        )
        self._emitter = Emitter(
            self._output,
            counters=self._counters,
            rollups=self._rollups,
            clock=self._clock,
            deadline_ms=self._pipeline.deadline_ms,
            besides=(Reason.NOT_KEPT,) if keeping is Keeping.VOLATILE else (),
        )
        self._hub: HubSide | None = None
        self._ingest = self._make_ingest(recovery)
        self._progress = Progress(outbox, undecided_s=lambda: self._ingest.undecided_s)
        self._reporter = self._make_reporter()
        self._watchdog = Watchdog(
            ground.supervisor,
            limit_s=ground.watchdog_s,
            stuck=self._progress.stuck,
            sentence=self._reporter.sentence,
        )
        self._hub = self._make_hub()
        self._pending = recovery.pending
        if keeping is Keeping.STORED:
            self._log.info(
                Event.OUTBOX_OPENED,
                epoch=recovery.epoch,
                streams=len(recovery.checkpoints),
                restored_readings=restored,
                pending=len(recovery.pending),
            )

    def _make_hub(self) -> HubSide | None:
        if not self._settings.hub.urls:
            return None
        # A device that works alone need not hold NATS in memory (5 MB).
        from edge_agent.agent.hub import HubSide

        return HubSide(
            self._settings,
            outbox=self._outbox,
            ingest=self._ingest,
            emitter=self._emitter,
            counters=self._counters,
            clock=self._clock,
            report=self._reporter.state_report,
            keeping=self._keeping,
        )

    def _make_ingest(self, recovery: Recovery) -> Ingest:
        redelivery = Redelivery()
        redelivery.restore(recovery.packets)
        return Ingest(
            MqttSource(self._brokers.sessions),
            self._pipeline,
            self._outbox,
            emitter=self._emitter,
            redelivery=redelivery,
            counters=self._counters,
            rollups=self._rollups,
            clock=self._clock,
            link=self._link,
            relaxed=self._brokers.relaxed,
        )

    def _make_reporter(self) -> Reporter:
        return Reporter(
            Parts(
                settings=self._settings,
                version=VERSION,
                clock=self._clock,
                pipeline=self._pipeline,
                ingest=self._ingest,
                emitter=self._emitter,
                counters=self._counters,
                loaded=self._ground.loaded,
                brokers=lambda: [session.state() for session in self._brokers.sessions],
                outbox=self._outbox.state,
                link=self._link,
                revised_to=lambda: 0 if self._hub is None else self._hub.revised_to,
                stuck=self._progress.stuck,
                replaced=self._ground.replaced,
                keeping=self._keeping,
                config=self._ground.beginning.config,
                inspect=None if isinstance(self._outbox, VolatileStore) else self._outbox.inspect,
            )
        )

    def _link(self) -> LinkState:
        return no_link() if self._hub is None else self._hub.state()

    # --- the run -----------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set, then drains; raises when a task of its own died."""
        await self._brokers.remember()
        async with AsyncExitStack() as stack:
            serving = Serving(self._settings, self._reporter, self._counters, self._emitter)
            await self._ground.mark(Phase.SERVING)
            await serving.start()
            stack.push_async_callback(serving.close)
            await self._ground.mark(Phase.RUNNING)
            async with asyncio.TaskGroup() as group:
                carriers = _start(group, self._carriers())
                workers = _start(group, self._workers())
                ingest = group.create_task(self._ingest.run(), name="ingest")
                self._progress.must_live([*carriers, ingest])
                self._ground.supervisor.ready()
                self._log.info(Event.AGENT_READY, keeping=self._keeping.value)
                workers += _start(group, self._witnesses())
                await stop.wait()
                await self._drain(ingest, workers)
                for task in carriers:
                    task.cancel()
        await self._brokers.remember()

    @property
    def decided(self) -> int:
        """Messages that were decided so far."""
        return self._counters.messages

    def _carriers(self) -> list[Work]:
        """What must live until the last commit is stored and acknowledged."""
        works: list[Work] = [
            (f"broker-{session.name}", session.run) for session in self._brokers.sessions
        ]
        return [*works, ("outbox-watch", self._outbox.watch)]

    def _workers(self) -> list[Work]:
        """What uses the outbox, and so must end before it closes."""
        works: list[Work] = [
            ("loop-lag", lambda: watch_loop_lag(self._counters)),
            ("tick", self._tick),
            ("pending", self._answer_pending),
        ]
        works += self._brokers.holding()
        if self._hub is not None:
            works += self._hub.works()
        return works

    def _witnesses(self) -> list[Work]:
        """What looks whether all goes on."""
        return [
            ("probe", self._progress.probe),
            ("watchdog", self._watchdog.run),
            ("prove", lambda: self._ground.prove(lambda: self.decided, self._progress.stuck)),
        ]

    async def _tick(self) -> None:
        """What happens by the clock: rollups of quiet streams, and the health message."""
        healthy_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            self._ingest.flush_rollups()
            if loop.time() >= healthy_at and self._brokers.heard:
                self._output.health(self._reporter.health(), time_s=self._clock.wall_s())
                healthy_at = loop.time() + HEALTH_EVERY_S
            await asyncio.sleep(TICK_S)

    # --- the end -----------------------------------------------------------------------------

    async def _drain(
        self, ingest: asyncio.Task[None], workers: Sequence[asyncio.Task[None]]
    ) -> None:
        """Against the stream: no more messages in, the last ones decided, stored, acknowledged.

        What there is no time for is not acknowledged, and comes again.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + STOP_S
        self._brokers.stop()
        await asyncio.wait({ingest}, timeout=STOP_S - _STORE_S)
        ingest.cancel()
        if self._hub is not None:
            await self._hub.close()
        for task in workers:
            task.cancel()
        await asyncio.wait(workers, timeout=_WORKERS_END_S)
        with suppress(StoreError):  # a disk that fails has taken nothing for a while
            self._ingest.close()
        closing = asyncio.create_task(self._outbox.close(), name="outbox-close")
        await asyncio.wait({closing}, timeout=max(0.1, end_s - _GOODBYE_S - loop.time()))
        await asyncio.sleep(0)  # acknowledgements of the last commit are handed to the sessions
        await self._brokers.close(timeout_s=max(0.2, end_s - loop.time()))

    async def _answer_pending(self) -> None:
        """Verdicts that waited for the hub at the last stop are given with the local answer.

        They wait until a broker hears them: what is published before is dropped at QoS 0.
        """
        for _ in range(round(HEARD_S / _POLL_S)):
            if self._brokers.heard or not self._pending:
                break
            await asyncio.sleep(_POLL_S)
        verdicts = []
        for _, body in self._pending:
            verdict = read_pending(body)
            if verdict is not None:
                # The machine may have rebooted: the old monotonic arrival means nothing now.
                arrival_ns = self._clock.mono_ns()
                reasons = (*verdict.reasons, Reason.RESTARTED)
                verdicts.append(replace(verdict, reasons=reasons, arrival_ns=arrival_ns))
        if self._pending:
            self._ingest.settle_pending(verdicts, [each for each, _ in self._pending])


def _start(group: asyncio.TaskGroup, works: Sequence[Work]) -> list[asyncio.Task[None]]:
    return [group.create_task(work(), name=name) for name, work in works]
