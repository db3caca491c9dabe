"""Starts the agent in order, runs it, and drains it: outbox → models → sources → link, and back.

The agent is ready without the hub and without ever having seen it. A task that dies ends the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contract.status import Reason
from edge_agent.agent.emitting import Emitter
from edge_agent.agent.ingest import Ingest, read_pending
from edge_agent.agent.reporting import Parts, Reporter, no_link
from edge_agent.agent.serving import Serving
from edge_agent.agent.subscriptions import (
    Filters,
    read_subscriptions,
    save_subscriptions,
    unwanted,
)
from edge_agent.broker.options import broker_options
from edge_agent.broker.session import BrokerSession
from edge_agent.clock import SystemClock
from edge_agent.errors import ConfigurationError, EdgeError
from edge_agent.inference.load import Loaded, load_scorers
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.observe.loop_lag import watch_loop_lag
from edge_agent.observe.metrics import Counters
from edge_agent.observe.rollups import Rollups
from edge_agent.outbox.store import Outbox
from edge_agent.outputs.mqtt import MqttOutput
from edge_agent.outputs.topics import status_topic
from edge_agent.pipeline.core import Pipeline
from edge_agent.settings import Settings
from edge_agent.sources.mqtt import MqttSource
from edge_agent.sources.redelivery import Redelivery
from edge_agent.types import LinkState, Recovery
from edge_agent.version import VERSION

if TYPE_CHECKING:
    from edge_agent.agent.hub import HubSide

DRAIN_S = 4.0
WORKERS_END_S = 2.0
HEALTH_EVERY_S = 30.0
TICK_S = 1.0
HEARD_S = 60.0
"""How long the verdicts of the last run wait for a broker to hear them."""
_POLL_S = 0.05

Work = tuple[str, Callable[[], Coroutine[Any, Any, None]]]
"""A task to be: its name and what it does."""


class Agent:
    """One run of the agent; made by `open`, which restores what was known."""

    def __init__(
        self,
        settings: Settings,
        *,
        loaded: Loaded,
        outbox: Outbox,
        recovery: Recovery,
        past: Filters,
    ) -> None:
        """Builds every part; nothing runs yet. `past` are the filters the brokers may remember."""
        self._settings = settings
        self._log = get_logger(device=settings.device.name)
        self._clock = SystemClock()
        self._outbox = outbox
        self._counters = Counters()
        self._rollups = Rollups(
            interval_s=settings.outbox.rollup_interval_s, now_s=self._clock.wall_s()
        )
        self._pipeline = Pipeline(settings, loaded.scorers, clock=self._clock, epoch=recovery.epoch)
        restored = self._pipeline.recover(recovery)
        self._sessions = self._make_sessions(past)
        self._output = MqttOutput(
            self._sessions,
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
        )
        self._hub: HubSide | None = None
        self._ingest = self._make_ingest(recovery)
        self._reporter = self._make_reporter(loaded)
        if settings.hub.urls:
            # A device that works alone need not hold NATS in memory (5 MB).
            from edge_agent.agent.hub import HubSide

            self._hub = HubSide(
                settings,
                outbox=outbox,
                ingest=self._ingest,
                emitter=self._emitter,
                counters=self._counters,
                clock=self._clock,
                report=self._reporter.state_report,
            )
        self._pending = recovery.pending
        self._log.info(
            Event.OUTBOX_OPENED,
            epoch=recovery.epoch,
            streams=len(recovery.checkpoints),
            restored_readings=restored,
            pending=len(recovery.pending),
        )

    def _make_ingest(self, recovery: Recovery) -> Ingest:
        redelivery = Redelivery()
        redelivery.restore(recovery.packets)
        return Ingest(
            MqttSource(self._sessions),
            self._pipeline,
            self._outbox,
            emitter=self._emitter,
            redelivery=redelivery,
            counters=self._counters,
            rollups=self._rollups,
            clock=self._clock,
            link=self._link,
        )

    def _make_reporter(self, loaded: Loaded) -> Reporter:
        return Reporter(
            Parts(
                settings=self._settings,
                version=VERSION,
                clock=self._clock,
                pipeline=self._pipeline,
                ingest=self._ingest,
                emitter=self._emitter,
                counters=self._counters,
                loaded=loaded,
                brokers=lambda: [session.state() for session in self._sessions],
                outbox=self._outbox.state,
                link=self._link,
                revised_to=lambda: 0 if self._hub is None else self._hub.revised_to,
            )
        )

    def _link(self) -> LinkState:
        return no_link() if self._hub is None else self._hub.state()

    def _make_sessions(self, past: Filters) -> list[BrokerSession]:
        settings = self._settings
        filters = self._filters()
        options = [broker_options(each, device=settings.device.name) for each in settings.brokers]
        left_over = unwanted(past, {each.name: filters for each in options})
        return [
            BrokerSession(
                each,
                filters=[(topic, broker.qos) for topic in filters],
                unwanted=left_over[each.name],
                status_topic=status_topic(settings.prefix),
                clock=self._clock,
            )
            for broker, each in zip(settings.brokers, options, strict=True)
        ]

    def _filters(self) -> list[str]:
        return sorted({stream.topic for stream in self._settings.stream})

    async def _remember_filters(self) -> None:
        """What cannot be saved costs an unsubscribe at the next start, no more."""
        filters = {each.name: [*self._filters(), *each.unwanted] for each in self._sessions}
        with suppress(OSError):
            await asyncio.to_thread(save_subscriptions, self._settings.data_dir, filters)

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set, then drains; raises when a task of its own died."""
        await self._remember_filters()
        async with AsyncExitStack() as stack:
            serving = Serving(self._settings, self._reporter, self._counters, self._emitter)
            await serving.start()
            stack.push_async_callback(serving.close)
            async with asyncio.TaskGroup() as group:
                carriers = _start(group, self._carriers())
                workers = _start(group, self._workers())
                ingest = group.create_task(self._ingest.run(), name="ingest")
                serving.ready()
                self._log.info(Event.AGENT_READY)
                await stop.wait()
                serving.stopping()
                self._log.info(Event.AGENT_STOPPING)
                await self._drain(ingest, workers)
                for task in carriers:
                    task.cancel()
        await self._remember_filters()
        self._log.info(Event.AGENT_STOPPED)

    def _carriers(self) -> list[Work]:
        """What must live until the last commit is stored and acknowledged."""
        works: list[Work] = [(f"broker-{session.name}", session.run) for session in self._sessions]
        return [*works, ("outbox-watch", self._outbox.watch)]

    def _workers(self) -> list[Work]:
        """What uses the outbox, and so must end before it closes."""
        works: list[Work] = [
            ("loop-lag", lambda: watch_loop_lag(self._counters)),
            ("tick", self._tick),
            ("pending", self._answer_pending),
        ]
        if self._hub is not None:
            works += self._hub.works()
        return works

    async def _tick(self) -> None:
        """What happens by the clock: rollups of quiet streams, and the health message."""
        healthy_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            self._ingest.flush_rollups()
            if loop.time() >= healthy_at and self._heard:
                self._output.health(self._reporter.health(), time_s=self._clock.wall_s())
                healthy_at = loop.time() + HEALTH_EVERY_S
            await asyncio.sleep(TICK_S)

    async def _drain(
        self, ingest: asyncio.Task[None], workers: Sequence[asyncio.Task[None]]
    ) -> None:
        """Against the stream: no more messages in, the last ones decided, stored, acknowledged."""
        for session in self._sessions:
            session.stop()
        try:
            async with asyncio.timeout(DRAIN_S):
                await asyncio.shield(ingest)
        except TimeoutError:
            ingest.cancel()
        if self._hub is not None:
            await self._hub.close()
        for task in workers:
            task.cancel()
        await asyncio.wait(workers, timeout=WORKERS_END_S)
        self._ingest.close()
        await self._outbox.close()
        await asyncio.sleep(0)  # acknowledgements of the last commit are handed to the sessions
        for session in self._sessions:
            await session.close()

    @property
    def _heard(self) -> bool:
        return any(session.state().connected for session in self._sessions)

    async def _answer_pending(self) -> None:
        """Verdicts that waited for the hub at the last stop are given with the local answer.

        They wait until a broker hears them: what is published before is dropped at QoS 0.
        """
        for _ in range(round(HEARD_S / _POLL_S)):
            if self._heard or not self._pending:
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


class AgentFailed(EdgeError):
    """A part of the agent died; the process ends, so that its supervisor starts it again whole."""


async def run_agent(settings: Settings, *, config: Path) -> None:
    """Runs the agent until SIGTERM or SIGINT; raises EdgeError when it cannot start."""
    log = get_logger(device=settings.device.name)
    log.info(Event.AGENT_STARTED, version=VERSION, config=str(config), pid=os.getpid())
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loaded = await asyncio.to_thread(load_scorers, settings)
    for path, why in loaded.failures.items():
        log.error(Event.MODEL_REJECTED, path=path, why=why)
    for scorer in loaded.scorers.values():
        log.info(Event.MODEL_LOADED, model=scorer.family, release=scorer.release)
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        outbox = await Outbox.open(
            settings.data_dir / "outbox", settings=settings.outbox, clock=SystemClock()
        )
    except OSError as error:
        raise ConfigurationError(
            f"device.data_dir: cannot write in {settings.data_dir}: {error.strerror}; "
            "choose a folder that this user may write"
        ) from error
    try:
        recovery = await outbox.recover()
        past = await asyncio.to_thread(read_subscriptions, settings.data_dir)
        agent = Agent(settings, loaded=loaded, outbox=outbox, recovery=recovery, past=past)
        await agent.run(stop)
    except ExceptionGroup as failed:
        log.exception(Event.AGENT_FAILED)
        causes = "; ".join(f"{type(each).__name__}: {each}" for each in failed.exceptions)
        raise AgentFailed(f"the agent stopped because a part of it failed: {causes}") from failed
    finally:
        await outbox.close()
