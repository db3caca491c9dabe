"""Remembers what devices last reported, and writes it down now and then, not on every heartbeat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from cloud_hub.errors import StoreError
from cloud_hub.metrics import HubMetrics
from cloud_hub.store.database import Connection, Database
from cloud_hub.store.fleet_queries import save_states
from cloud_hub.store.stamps import ClockNews, Stamps, stamps_of, write_stamps
from contract.messages import StateReport

FLUSH_EVERY_S: Final = 1.0
MAX_DEVICES: Final = 100_000
FLUSH_ROWS: Final = 500

log = structlog.get_logger()


class Presence:
    """The last report of each device; at most a second of it is lost in a crash, and comes again by itself."""

    def __init__(
        self,
        database: Database,
        *,
        metrics: HubMetrics,
        on_clocks: Callable[[ClockNews], None] | None = None,
    ) -> None:
        """`on_clocks` is told which times can be repaired because of what devices said of their clocks."""
        self._database = database
        self._metrics = metrics
        self._on_clocks = on_clocks
        self._unsaved: dict[str, tuple[StateReport, float]] = {}
        self._heard: set[str] = set()

    def note(self, device: str, report: StateReport, *, seen_s: float) -> None:
        """Remembers a report; of more than 100,000 unsaved ones the new are ignored."""
        if len(self._unsaved) < MAX_DEVICES or device in self._unsaved:
            self._unsaved[device] = (report, seen_s)
        if len(self._heard) < MAX_DEVICES:
            self._heard.add(device)
        self._metrics.devices.set(len(self._heard))

    async def run(self) -> None:
        """Writes reports down until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_EVERY_S)
            await self.flush()

    async def flush(self) -> None:
        """Writes down what was not written yet; a database that fails leaves it for the next time."""
        while self._unsaved:
            names = list(self._unsaved)[:FLUSH_ROWS]
            taken = {name: self._unsaved.pop(name) for name in names}
            states = [
                (name, msgspec.json.encode(report), seen_s)
                for name, (report, seen_s) in taken.items()
            ]
            stamps = stamps_of((name, report.clock) for name, (report, _) in taken.items())
            now_s = max(seen_s for _, seen_s in taken.values())
            try:
                news = await self._database.write(
                    lambda c, states=states, stamps=stamps, now_s=now_s: _save(  # type: ignore[misc]
                        c, states, stamps, now_s=now_s
                    )
                )
            except StoreError as error:
                log.warning("presence_store_failed", error=str(error))
                self._unsaved = {**taken, **self._unsaved}
                return
            if news and self._on_clocks is not None:
                self._on_clocks(news)


async def _save(
    connection: Connection,
    states: list[tuple[str, bytes, float]],
    stamps: Stamps,
    *,
    now_s: float,
) -> ClockNews:
    await save_states(connection, states)
    return await write_stamps(connection, stamps, now_s=now_s)
