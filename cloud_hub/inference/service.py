"""The door to the models: every ask ends in exactly one outcome, and the same ask in the same one."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Final

import structlog

from cloud_hub.inference.admission import RateLimits, Refusal
from cloud_hub.inference.answers import AnswerMemory, Listener
from cloud_hub.inference.batcher import Item
from cloud_hub.inference.entry import ModelEntry
from cloud_hub.inference.executor import Executor
from cloud_hub.inference.inputs import BadInput, check_features
from cloud_hub.metrics import HubMetrics
from cloud_hub.settings import InferenceSettings
from cloud_hub.types import Ask, Outcome
from contract.messages import HubLoad
from contract.status import Status

UNKNOWN_MODEL: Final = "unknown"

log = structlog.get_logger()


class InferenceService:
    """Answers asks with the models it was given; `run` must be running for them to be answered."""

    def __init__(
        self, entries: Mapping[str, ModelEntry], settings: InferenceSettings, *, metrics: HubMetrics
    ) -> None:
        self._metrics = metrics
        self._max_budget_s = settings.max_budget_ms / 1000
        self._rates = RateLimits(
            rows_per_s=settings.rate_per_device, burst_rows=settings.burst_per_device
        )
        self._memory = AnswerMemory(most=settings.remembered_answers)
        self._executors = {
            family: Executor(entry, settle=self._settle, metrics=metrics)
            for family, entry in entries.items()
        }

    @property
    def models(self) -> tuple[str, ...]:
        """The families that are served."""
        return tuple(self._executors)

    async def run(self) -> None:
        """Runs every model until `stop`."""
        async with asyncio.TaskGroup() as tasks:
            for family, executor in self._executors.items():
                tasks.create_task(executor.run(), name=f"executor-{family}")

    def stop(self) -> None:
        """Lets `run` end once all that was let in has been answered."""
        for executor in self._executors.values():
            executor.stop()

    def submit(self, ask: Ask, listener: Listener) -> None:
        """Lets the ask in, or refuses it; `listener` gets the outcome once, perhaps before this returns."""
        identity = (ask.device, ask.request)
        if (known := self._memory.outcome(identity)) is not None:
            self._tell(listener, known)
            return
        if self._memory.join(identity, listener):
            return
        executor = self._executors.get(ask.model)
        if executor is None:
            served = ", ".join(self.models) or "none"
            error = f"there is no model {ask.model[:64]!r}; served: {served}"
            self._refuse(
                listener, Outcome(Status.NO_MODEL, model=ask.model, error=error), UNKNOWN_MODEL
            )
            return
        entry = executor.entry
        try:
            features = check_features(
                entry.package.manifest, digest=ask.feature_digest, features=ask.features
            )
        except BadInput as error:
            self._refuse(listener, self._outcome(entry, Status.BAD_INPUT, str(error)), entry.family)
            return
        item = Item(
            device=ask.device,
            request=ask.request,
            priority=ask.priority,
            rows=len(features),
            nbytes=features.nbytes,
            deadline_s=self._deadline_s(ask),
            arrived_s=ask.arrived_mono_s,
            payload=features,
        )
        refusal = self._admit(item, executor, metered=ask.metered)
        if refusal is not None:
            outcome = self._outcome(entry, refusal.status, refusal.reason, refusal.retry_after_s)
            self._refuse(listener, outcome, entry.family)
            return
        self._memory.begin(identity, listener)
        executor.wake()

    async def judge(self, ask: Ask) -> Outcome:
        """The outcome of an ask; cancelling the call drops the answer, and the run if it waits still."""
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def settle(outcome: Outcome) -> None:
            if not done.done():
                done.set_result(outcome)

        self.submit(ask, settle)
        try:
            return await done
        except asyncio.CancelledError:
            self.cancel(ask.device, ask.request)
            raise

    def cancel(self, device: str, request: str) -> None:
        """Takes an ask back that still waits; one that runs is answered."""
        for executor in self._executors.values():
            item = executor.entry.batcher.cancel(device, request)
            if item is not None:
                outcome = self._outcome(executor.entry, Status.CANCELLED, "cancelled by the device")
                self._settle(item, outcome)
                return

    def load(self) -> HubLoad:
        """Rows that wait, and the longest predicted wait of any model."""
        now_s = time.monotonic()
        rows, wait_s = 0, 0.0
        for family, executor in self._executors.items():
            batcher = executor.entry.batcher
            wait = batcher.predicted_wait_s(now_s, executor.busy_until_s)
            self._metrics.backlog_rows.labels(family).set(batcher.backlog_rows)
            self._metrics.predicted_wait_ms.labels(family).set(wait * 1000)
            rows, wait_s = rows + batcher.backlog_rows, max(wait_s, wait)
        return HubLoad(rows, round(wait_s * 1000, 1))

    def _deadline_s(self, ask: Ask) -> float:
        if ask.budget_s is None:
            return math.inf
        return ask.arrived_mono_s + min(ask.budget_s, self._max_budget_s)

    def _admit(self, item: Item, executor: Executor, *, metered: bool) -> Refusal | None:
        now_s = time.monotonic()
        if metered:
            refusal = self._rates.take(item.device, item.rows, now_s=now_s)
            if refusal is not None:
                return refusal
        return executor.entry.batcher.offer(item, now_s=now_s, busy_until_s=executor.busy_until_s)

    def _settle(self, item: Item, outcome: Outcome) -> None:
        self._metrics.requests.labels(outcome.model, outcome.status.value).inc()
        for listener in self._memory.settle((item.device, item.request), outcome):
            self._tell(listener, outcome)

    def _refuse(self, listener: Listener, outcome: Outcome, label: str) -> None:
        self._metrics.requests.labels(label, outcome.status.value).inc()
        self._tell(listener, outcome)

    def _tell(self, listener: Listener, outcome: Outcome) -> None:
        try:
            listener(outcome)
        except Exception as error:  # noqa: BLE001 - one caller's trouble must not reach its batch mates
            log.warning("outcome_undeliverable", error=repr(error))

    @staticmethod
    def _outcome(
        entry: ModelEntry, status: Status, error: str, retry_after_s: float = 0.0
    ) -> Outcome:
        return Outcome(
            status,
            model=entry.family,
            release=entry.release,
            error=error,
            retry_after_ms=round(retry_after_s * 1000, 1),
        )
