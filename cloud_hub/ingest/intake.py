"""One lane's loop: fetch, decode, commit, acknowledge; in this order, whatever fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from cloud_hub.errors import BusError, StoreError, StoreRejected
from cloud_hub.ingest.decode import decode_deliveries, set_aside
from cloud_hub.metrics import HubMetrics
from cloud_hub.store.apply import Applied, Batch, apply_batch
from cloud_hub.store.database import Database
from cloud_hub.store.stamps import ClockNews
from cloud_hub.types import Delivery, DeliverySource
from contract.status import Lane

WAIT_S: Final = 5.0
RETRY_S: Final = 1.0
MAX_RETRY_S: Final = 5.0
"""Once its disk has room again, or can be written again, the hub goes on within this."""

log = structlog.get_logger()


class Intake:
    """Stores what one lane brings; a message is acknowledged only after the commit that holds it.

    A slow database slows the fetching, and so the devices: nothing piles up here beyond one fetch.
    """

    def __init__(
        self,
        lane: Lane,
        *,
        source: DeliverySource,
        database: Database,
        metrics: HubMetrics,
        max_messages: int,
        max_dead_letters: int,
        on_escalations: Callable[[], None] | None = None,
        on_clocks: Callable[[ClockNews], None] | None = None,
    ) -> None:
        self._lane = lane
        self._source = source
        self._database = database
        self._metrics = metrics
        self._max_messages = max_messages
        self._max_dead_letters = max_dead_letters
        self._on_escalations = on_escalations
        self._on_clocks = on_clocks
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Lets `run` end after the messages it has in hand."""
        self._stopping.set()

    async def run(self) -> None:
        """Stores until `stop`; a failure of database or connection is waited out."""
        retry_s = RETRY_S
        in_hand: list[Delivery] = []
        while not self._stopping.is_set():
            try:
                in_hand = in_hand or await self._fetch()
                if in_hand:
                    await self._store(in_hand)
                in_hand, retry_s = [], RETRY_S
            except BusError:
                await self._pause(RETRY_S)
            except StoreError as error:
                log.warning("ingest_store_failed", key=self._lane.value, error=str(error))
                await self._pause(retry_s)
                retry_s = min(2 * retry_s, MAX_RETRY_S)

    async def _fetch(self) -> list[Delivery]:
        """What the source has; empty at once when stopping (what was under way comes again)."""
        fetching = asyncio.create_task(
            self._source.fetch(max_messages=self._max_messages, wait_s=WAIT_S),
            name=f"fetch-{self._lane}",
        )
        stopping = asyncio.create_task(self._stopping.wait(), name=f"fetch-stop-{self._lane}")
        try:
            await asyncio.wait({fetching, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return await fetching if fetching.done() else []
        finally:
            fetching.cancel()
            stopping.cancel()

    async def _store(self, deliveries: list[Delivery]) -> None:
        batch = await asyncio.to_thread(
            decode_deliveries, deliveries, self._lane, received_s=time.time()
        )
        try:
            applied = await self._commit(batch)
        except StoreRejected as error:
            await self._store_apart(deliveries, str(error))
            return
        self._count(batch, applied, len(deliveries))
        for delivery in deliveries:
            await delivery.acknowledge()
        if batch.escalations and self._on_escalations is not None:
            self._on_escalations()

    async def _store_apart(self, deliveries: list[Delivery], reason: str) -> None:
        """Halves a batch whose values the database refuses, until the one message is alone and set aside."""
        if len(deliveries) > 1:
            middle = len(deliveries) // 2
            await self._store(deliveries[:middle])
            await self._store(deliveries[middle:])
            return
        batch = set_aside(deliveries, self._lane, received_s=time.time(), reason=reason)
        self._count(batch, await self._commit(batch), 1)
        await deliveries[0].acknowledge()

    async def _commit(self, batch: Batch) -> Applied:
        started = time.perf_counter()
        applied = await self._database.write(
            lambda connection: apply_batch(
                connection, batch, max_dead_letters=self._max_dead_letters
            )
        )
        self._metrics.commit_ms.observe((time.perf_counter() - started) * 1000)
        if applied.clocks and self._on_clocks is not None:
            self._on_clocks(applied.clocks)
        return applied

    def _count(self, batch: Batch, applied: Applied, messages: int) -> None:
        lane, metrics = self._lane.value, self._metrics
        metrics.ingest_messages.labels(lane).inc(messages)
        metrics.ingest_rows.labels(lane).inc(applied.rows + applied.duplicates)
        metrics.ingest_readings.inc(applied.readings)
        metrics.ingest_duplicates.labels(lane).inc(applied.duplicates)
        metrics.dead_letters.labels(lane).inc(batch.set_aside)
        for letter in batch.dead_letters:
            log.warning(
                "ingest_dead_letter", key=letter["device"], lane=lane, reason=letter["reason"]
            )

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
