"""Answers stored escalations with revisions; each is answered once, whatever is redelivered or restarted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from cloud_hub.errors import StoreError
from cloud_hub.metrics import HubMetrics
from cloud_hub.store.database import Database
from cloud_hub.store.revising import (
    NO_MODEL,
    REFUSED,
    WAITING,
    Waiting,
    answer_escalation,
    revive_escalations,
    settle_escalation,
    waiting_escalations,
)
from cloud_hub.types import Ask, Judge, Outcome
from contract.messages import Revision
from contract.status import Priority, Status

BATCH: Final = 64
IDLE_S: Final = 5.0
MAX_ATTEMPTS: Final = 3
MAX_RETRY_S: Final = 5.0

log = structlog.get_logger()

T = TypeVar("T")


class EscalationDesk:
    """Takes waiting escalations from the database to the models, oldest first, a few at a time.

    The database is the queue: a kill at any point leaves the escalation waiting, or answered whole.
    """

    def __init__(
        self,
        *,
        database: Database,
        judge: Judge,
        metrics: HubMetrics,
        on_revised: Callable[[str], None],
    ) -> None:
        self._database = database
        self._judge = judge
        self._metrics = metrics
        self._on_revised = on_revised
        self._wake = asyncio.Event()
        self._stopping = False

    def wake(self) -> None:
        """Says that escalations were stored."""
        self._wake.set()

    def stop(self) -> None:
        """Lets `run` end after the escalations it has in hand."""
        self._stopping = True
        self._wake.set()

    async def run(self, *, models: tuple[str, ...]) -> None:
        """Answers until `stop`; first looks again at those whose model was missing."""
        await self._guarded(self._database.write(lambda c: revive_escalations(c, models)))
        while not self._stopping:
            self._wake.clear()
            waiting = await self._guarded(
                self._database.read(lambda c: waiting_escalations(c, limit=BATCH))
            )
            if not waiting:
                await self._sleep(IDLE_S)
                continue
            delays = await asyncio.gather(*(self._answer(each) for each in waiting))
            if max(delays) > 0:
                await self._sleep(max(delays))

    async def _answer(self, waiting: Waiting) -> float:
        """Answers one; returns how long to wait before the next try, 0 if none is needed."""
        outcome = await self._judge.judge(_ask(waiting))
        if outcome.status in (Status.BUSY, Status.EXPIRED):
            return min(max(outcome.retry_after_ms / 1000, 0.05), MAX_RETRY_S)
        if outcome.status is Status.OK:
            return await self._revise(waiting, outcome)
        attempts = waiting.attempts + 1
        state = NO_MODEL if outcome.status is Status.NO_MODEL else REFUSED
        if outcome.status is Status.INTERNAL and attempts < MAX_ATTEMPTS:
            state = WAITING
        reason = f"{outcome.status}: {outcome.error}"[:500]
        await self._guarded(
            self._database.write(
                lambda c: settle_escalation(
                    c,
                    waiting.device,
                    waiting.escalation.verdict,
                    state=state,
                    reason=reason,
                    attempts=attempts,
                )
            )
        )
        self._metrics.escalations.labels(state).inc()
        return IDLE_S if state == WAITING else 0.0

    async def _revise(self, waiting: Waiting, outcome: Outcome) -> float:
        escalation = waiting.escalation
        revision = Revision(
            verdict=escalation.verdict,
            stream=escalation.stream,
            label=outcome.labels[-1],
            score=outcome.scores[-1],
            confidence=outcome.confidences[-1],
            model=outcome.model,
            release=outcome.release,
            time_s=escalation.time_s,
        )
        seq = await self._guarded(
            self._database.write(
                lambda c: answer_escalation(c, waiting.device, revision, made_s=time.time())
            )
        )
        if seq is None:
            return IDLE_S
        if seq:
            self._metrics.escalations.labels("answered").inc()
            self._metrics.revisions.inc()
            self._on_revised(waiting.device)
        return 0.0

    async def _guarded(self, work: Awaitable[T]) -> T | None:
        try:
            return await work
        except StoreError as error:
            log.warning("escalation_store_failed", error=str(error))
            await self._sleep(IDLE_S)
            return None

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return


def _ask(waiting: Waiting) -> Ask:
    escalation = waiting.escalation
    return Ask(
        device=waiting.device,
        request=f"bulk:{escalation.verdict}",
        priority=Priority.BULK,
        model=waiting.model,
        feature_digest=escalation.feature_digest,
        features=escalation.features,
        arrived_mono_s=time.monotonic(),
        budget_s=None,
        metered=False,
    )
