"""The rooms of one hub, made and handed to one another by role, and their tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from enum import StrEnum
from typing import Any, Final

import structlog

from cloud_hub.bus.backlog import ServerBacklog
from cloud_hub.bus.connection import Connection
from cloud_hub.bus.mail import Mail
from cloud_hub.bus.puller import LanePuller
from cloud_hub.bus.routes import CANCEL, INFER, STATE, Handler, Routes
from cloud_hub.bus.streams import StreamKeeper
from cloud_hub.bus.sync_check import SyncCheck
from cloud_hub.fleet.nudges import Nudges
from cloud_hub.fleet.presence import Presence
from cloud_hub.fleet.repairs import RepairDesk
from cloud_hub.fleet.state import StateDesk
from cloud_hub.inference.entry import ModelEntry
from cloud_hub.inference.requests import RequestDoor
from cloud_hub.inference.service import InferenceService
from cloud_hub.ingest.escalations import EscalationDesk
from cloud_hub.ingest.intake import Intake
from cloud_hub.metrics import HubMetrics
from cloud_hub.settings import Settings
from cloud_hub.store.database import Database
from contract.status import Lane

DRAIN_LIMIT_S: Final = 10.0

log = structlog.get_logger()


class Role(StrEnum):
    """What a hub process does; several processes may share the work."""

    INFERENCE = "inference"
    """Answers requests and queued escalations with models."""
    INGEST = "ingest"
    """Stores telemetry and events."""
    FLEET = "fleet"
    """Answers state requests."""


class Crew:
    """Everything that uses the connection; `start` starts it, `drain` ends it in order."""

    def __init__(
        self,
        settings: Settings,
        *,
        roles: frozenset[Role],
        metrics: HubMetrics,
        database: Database,
        entries: Mapping[str, ModelEntry],
    ) -> None:
        self._settings = settings
        self._roles = roles
        self._metrics = metrics
        self._database = database
        self._handlers: dict[str, Handler] = {}
        self._runs: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._lanes = tuple(Lane) if Role.INGEST in roles else ()
        self.connection = Connection(
            settings.nats,
            metrics=metrics,
            preparations=(
                SyncCheck(settings.nats),
                StreamKeeper(settings.nats, settings.ingest, self._lanes),
                Routes(self._handlers, metrics=metrics),
            ),
            on_ready=self._greet,
        )
        self._mail = Mail(self.connection, metrics=metrics)
        self._nudges = Nudges(database=database, post=self._mail)
        self._repairs = RepairDesk(database, metrics=metrics)
        self.service = InferenceService(entries, settings.inference, metrics=metrics)
        self._runs |= {
            "store-writer": database.run,
            "bus": self.connection.run,
            "mail": self._mail.run,
            "nudges": self._nudges.run,
            "inference": self.service.run,
        }
        self._escalations = self._make_inference()
        self._pullers, self._intakes = self._make_ingest()
        self._presence = self._make_fleet()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Starts every task of this hub's roles."""
        for name, run in self._runs.items():
            self._tasks[name] = tasks.create_task(run(), name=name)

    async def drain(self) -> None:
        """Ends every task; none is waited for longer than the limit."""
        for intake in self._intakes.values():
            intake.stop()
        self._escalations.stop()
        await self._ended("escalations", *(f"intake-{lane}" for lane in self._lanes))
        for puller in self._pullers.values():
            await puller.release()
        self.service.stop()
        await self._ended("inference")
        await self._cancel("state", "presence", "repairs", "nudges", "mail")
        await self._mail.flush()
        await self._presence.flush()
        await self._cancel("bus")
        await self._database.finish()
        await self._ended("store-writer")

    def _make_inference(self) -> EscalationDesk:
        door = RequestDoor(
            self.service,
            post=self._mail,
            settings=self._settings.inference,
            metrics=self._metrics,
        )
        desk = EscalationDesk(
            database=self._database,
            judge=self.service,
            metrics=self._metrics,
            on_revised=self._nudges.want,
        )
        if Role.INFERENCE in self._roles:
            self._handlers |= {INFER: door.on_request, CANCEL: door.on_cancel}
            self._runs["escalations"] = lambda: desk.run(models=self.service.models)
        return desk

    def _make_ingest(self) -> tuple[dict[Lane, LanePuller], dict[Lane, Intake]]:
        pullers = {lane: LanePuller(self.connection, lane) for lane in self._lanes}
        intakes = {
            lane: Intake(
                lane,
                source=puller,
                database=self._database,
                metrics=self._metrics,
                max_messages=self._settings.ingest.max_messages,
                max_dead_letters=self._settings.ingest.max_dead_letters,
                on_escalations=self._escalations.wake,
                on_clocks=self._repairs.want,
            )
            for lane, puller in pullers.items()
        }
        self._runs |= {f"intake-{lane}": intake.run for lane, intake in intakes.items()}
        if self._lanes:
            self._runs["repairs"] = self._repairs.run
        return pullers, intakes

    def _make_fleet(self) -> Presence:
        presence = Presence(self._database, metrics=self._metrics, on_clocks=self._repairs.want)
        desk = StateDesk(
            database=self._database,
            presence=presence,
            backlog=ServerBacklog(self.connection),
            load=self.service,
            post=self._mail,
            metrics=self._metrics,
        )
        if Role.FLEET in self._roles:
            self._handlers[STATE] = desk.on_request
            self._runs |= {"state": desk.run, "presence": presence.run}
        return presence

    async def _greet(self) -> None:
        """Has every known device nudged: it may have rows or questions that waited for a hub."""
        if Role.FLEET in self._roles:
            await self._nudges.greet()

    async def _ended(self, *names: str) -> None:
        tasks = [self._tasks[name] for name in names if name in self._tasks]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=DRAIN_LIMIT_S)
            for task in late:
                log.warning("drain_incomplete", key=task.get_name(), task=task.get_name())
                task.cancel()

    async def _cancel(self, *names: str) -> None:
        tasks = [self._tasks[name] for name in names if name in self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=DRAIN_LIMIT_S)
