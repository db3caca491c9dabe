"""Repairs times after the fact: in slices, between the writes of the ingest, and again whenever a stamp says more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import structlog

from cloud_hub.errors import StoreError
from cloud_hub.metrics import HubMetrics
from cloud_hub.store.database import Database
from cloud_hub.store.repair import TABLES, Cursor, Repairable, Slice, repair_slice
from cloud_hub.store.stamps import Boot, ClockNews, known_boots

RETRY_S: Final = 5.0
PAUSE_S: Final = 0.01
"""Between slices, so that a repair of millions of readings never holds up what comes in."""
MAX_WAITING: Final = 100_000
"""Boots that wait; of more the new ones wait for the next start of a hub."""

log = structlog.get_logger()


class RepairDesk:
    """Repairs the times of boots that it is told of, and at its start those of every boot that it can.

    What is interrupted is taken up at the next start; what is done twice changes nothing.
    """

    def __init__(self, database: Database, *, metrics: HubMetrics) -> None:
        self._database = database
        self._metrics = metrics
        self._due: dict[Boot, bool] = {}
        self._something = asyncio.Event()

    def want(self, news: ClockNews) -> None:
        """Says what can be repaired; never blocks."""
        for boot in news.repairable | news.again:
            if len(self._due) < MAX_WAITING or boot in self._due:
                self._due[boot] = self._due.get(boot, False) or boot in news.again
                self._something.set()

    async def run(self) -> None:
        """Repairs until cancelled; a database that fails is waited for."""
        await self._until_done(self._find_all)
        while True:
            await self._something.wait()
            self._something.clear()
            await self._until_done(self._repair_due)

    async def _until_done(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except StoreError as error:
                log.warning("repair_store_failed", error=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _find_all(self) -> None:
        after: Boot = ("", "")
        while found := await self._database.read(lambda c, a=after: known_boots(c, after=a)):  # type: ignore[misc]
            again = frozenset(boot for boot, spans in found if spans > 1)
            self.want(ClockNews(frozenset(boot for boot, _ in found), again))
            after = found[-1][0]

    async def _repair_due(self) -> None:
        while self._due:
            boot, again = next(iter(self._due.items()))
            del self._due[boot]
            try:
                await self.repair(boot, again=again)
            except StoreError:
                self._due[boot] = self._due.get(boot, False) or again
                raise

    async def repair(self, boot: Boot, *, again: bool = False) -> int:
        """Repairs what can be repaired of a boot; `again` looks also at what was repaired. Returns rows."""
        rows = readings = 0
        shift_s = 0.0
        for table in TABLES:
            cursors: tuple[Cursor | None, ...] = (Cursor(), None) if again else (None,)
            for begin in cursors:
                async for done in self._slices(table, boot, begin):
                    rows, readings = rows + done.rows, readings + done.readings
                    shift_s = max(shift_s, done.shift_s, key=abs)
        if rows:
            log.info(
                "times_repaired",
                key=boot[0],
                device=boot[0],
                boot=boot[1],
                rows=rows,
                readings=readings,
                shift_s=round(shift_s, 3),
            )
        return rows

    async def _slices(
        self, table: Repairable, boot: Boot, after: Cursor | None
    ) -> AsyncIterator[Slice]:
        """Slices of one table until nothing is left; each is a transaction of its own."""
        while True:
            done = await self._database.write(
                lambda c, at=after: repair_slice(c, table, boot, after=at)  # type: ignore[misc]
            )
            if not done.looked_at:
                return
            self._metrics.times_repaired.labels(table.name).inc(done.rows)
            yield done
            after = None if after is None else done.cursor
            await asyncio.sleep(PAUSE_S)
