"""The hub's life: what is made in which order, which tasks run, and how they end.

Up:    database → HTTP → models (loaded, proven, warmed) → connection → everything that uses it
Down:  intake stops and stores what it has in hand → escalations and models finish what was let in → the last
       answers are sent → presence is written down → the connection closes → the writer ends → the database closes

Every task runs in one TaskGroup. One that fails ends the process: never half alive.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

import structlog

from cloud_hub.api.health import HealthServer
from cloud_hub.api.systemd import notify
from cloud_hub.bus.connection import BusState
from cloud_hub.hub.crew import Crew, Role
from cloud_hub.inference.entry import ModelEntry, load_entries
from cloud_hub.metrics import HubMetrics
from cloud_hub.settings import Settings
from cloud_hub.store.database import Database

HEARTBEAT_S: Final = 1.0
STUCK_S: Final = 10.0

log = structlog.get_logger()


ALL_ROLES: Final = frozenset(Role)


class Hub:
    """One hub process; `run` is its whole life."""

    def __init__(self, settings: Settings, *, roles: frozenset[Role] = ALL_ROLES) -> None:
        self._settings = settings
        self._roles = roles
        self.metrics = HubMetrics()
        self._stopping = asyncio.Event()
        self._models_warm = False
        self._beat_mono_s = time.monotonic()
        self._crew: Crew | None = None
        self._database: Database | None = None

    def stop(self) -> None:
        """Lets `run` end in order."""
        self._stopping.set()

    def ready(self) -> Mapping[str, bool | str]:
        """What must be true for the hub to be of use, and why it is not."""
        state = None if self._crew is None else self._crew.connection.state()
        fault = "" if self._database is None else self._database.fault
        facts: dict[str, bool | str] = {
            "nats_connected": state in (BusState.PREPARING, BusState.READY),
            "consumers_ready": state is BusState.READY,
            "models_warm": self._models_warm,
            "accepting": not self._stopping.is_set(),
            "store_writable": not fault,
        }
        return facts | {"why": fault} if fault else facts

    def alive(self) -> Mapping[str, bool]:
        """Whether the event loop still turns."""
        return {"loop": time.monotonic() - self._beat_mono_s < STUCK_S}

    async def run(self, *, on_listening: Callable[[int], None] | None = None) -> None:
        """Serves until `stop`, SIGTERM or SIGINT; raises HubError, alone or in an ExceptionGroup.

        `on_listening` is told the HTTP port once it is known.
        """
        database = self._database = await Database.open(self._settings.store.resolved_url)
        try:
            health = await self._start_http()
            try:
                if health is not None and on_listening is not None:
                    on_listening(health.port)
                with self._signals():
                    await self._serve(database)
            finally:
                if health is not None:
                    await health.stop()
        finally:
            await database.close()
        log.info("hub_stopped")

    async def _load_models(self) -> dict[str, ModelEntry]:
        if Role.INFERENCE not in self._roles:
            self._models_warm = True
            return {}
        settings = self._settings
        entries = await asyncio.to_thread(
            load_entries, settings.models.packages, settings.inference
        )
        for entry in entries.values():
            log.info(
                "model_ready",
                model=entry.family,
                release=entry.release,
                variant=entry.package.variant.name,
                provider=entry.backend.describe().provider,
                one_row_ms=round(entry.cost.predict(1) * 1000, 3),
                full_batch_ms=round(entry.cost.predict(entry.batcher.max_batch) * 1000, 3),
            )
        self._models_warm = True
        return entries

    async def _start_http(self) -> HealthServer | None:
        if not self._settings.http.enabled:
            return None
        health = HealthServer(
            self._settings.http,
            alive=self.alive,
            ready=self.ready,
            registry=self.metrics.registry,
        )
        await health.start()
        return health

    async def _serve(self, database: Database) -> None:
        async with asyncio.TaskGroup() as tasks:
            heartbeat = tasks.create_task(self._beat(), name="heartbeat")
            entries = await self._load_models()
            crew = self._crew = Crew(
                self._settings,
                roles=self._roles,
                metrics=self.metrics,
                database=database,
                entries=entries,
            )
            crew.start(tasks)
            log.info("hub_started", roles=sorted(self._roles), models=sorted(entries))
            await notify("READY=1")
            await self._stopping.wait()
            await notify("STOPPING=1")
            log.info("hub_stopping")
            await crew.drain()
            heartbeat.cancel()

    async def _beat(self) -> None:
        while True:
            await notify("WATCHDOG=1")
            self._beat_mono_s = time.monotonic()
            if self._crew is not None:
                self._crew.service.load()
            await asyncio.sleep(HEARTBEAT_S)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT stop the hub in order, where signals can be had (not in a thread)."""
        loop = asyncio.get_running_loop()
        taken = []
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(RuntimeError, ValueError):
                loop.add_signal_handler(number, self.stop)
                taken.append(number)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)
