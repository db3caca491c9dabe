"""Runs the batches of one model in a worker thread, one after another, and settles every item on its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import structlog

from cloud_hub.errors import ModelFailed
from cloud_hub.inference.batcher import Item, Taken
from cloud_hub.inference.entry import ModelEntry
from cloud_hub.metrics import HubMetrics
from cloud_hub.types import Outcome
from contract.scoring import Judgement
from contract.status import Status

log = structlog.get_logger()

Settle = Callable[[Item, Outcome], None]


class Executor:
    """Takes the next batch when the last has ended, never before; the event loop stays free meanwhile."""

    def __init__(self, entry: ModelEntry, *, settle: Settle, metrics: HubMetrics) -> None:
        self.entry = entry
        self.busy_until_s = 0.0
        self._settle = settle
        self._metrics = metrics
        self._wake = asyncio.Event()
        self._stopping = False

    def wake(self) -> None:
        """Says that something waits."""
        self._wake.set()

    def stop(self) -> None:
        """Lets `run` end once nothing waits any more."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Runs batches until `stop`."""
        name = f"model-{self.entry.family}"
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        try:
            await self._run(thread)
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, thread: ThreadPoolExecutor) -> None:
        while True:
            taken = self.entry.batcher.take(now_s=time.monotonic())
            for item in taken.expired:
                self._settle(item, self._late(item, "its turn did not come in time"))
            if taken.batch:
                await self._run_batch(thread, taken)
                continue
            if self._stopping:
                return
            self._wake.clear()
            await self._wake.wait()

    async def _run_batch(self, thread: ThreadPoolExecutor, taken: Taken) -> None:
        started_s = time.monotonic()
        self.busy_until_s = started_s + self.entry.cost.predict(taken.rows)
        await self._attempt(thread, list(taken.batch), started_s)
        self.busy_until_s = 0.0

    async def _attempt(
        self, thread: ThreadPoolExecutor, items: list[Item], dequeued_s: float
    ) -> None:
        """Runs the items together; when that fails, in halves, so that a bad row fails alone."""
        features = np.concatenate([item.payload for item in items])
        loop = asyncio.get_running_loop()
        started_s = time.monotonic()
        try:
            judgement = await loop.run_in_executor(thread, self.entry.judge, features)
        except ModelFailed as error:
            if len(items) == 1:
                log.warning("model_failed", key=self.entry.family, error=str(error))
                self._settle(items[0], self._outcome(Status.INTERNAL, error=str(error)))
                return
            middle = len(items) // 2
            await self._attempt(thread, items[:middle], dequeued_s)
            await self._attempt(thread, items[middle:], dequeued_s)
            return
        run_s = time.monotonic() - started_s
        self.entry.cost.record(len(features), run_s)
        self._metrics.run_ms.labels(self.entry.family).observe(run_s * 1000)
        self._metrics.batch_rows.labels(self.entry.family).observe(len(features))
        first = 0
        for item in items:
            rows = slice(first, first + item.rows)
            first += item.rows
            queue_ms = (dequeued_s - item.arrived_s) * 1000
            self._metrics.queue_ms.labels(self.entry.family).observe(queue_ms)
            outcome = self._answer(item, judgement, rows, run_s=run_s)
            self._settle(item, replace(outcome, queue_ms=queue_ms, batch=len(features)))

    def _answer(self, item: Item, judgement: Judgement, rows: slice, *, run_s: float) -> Outcome:
        scores, confidences = judgement.scores[rows], judgement.confidence[rows]
        if not (np.isfinite(scores).all() and np.isfinite(confidences).all()):
            return self._outcome(Status.INTERNAL, error="the model's output is not finite")
        if time.monotonic() > item.deadline_s:
            self._metrics.wasted_rows.labels(self.entry.family).inc(item.rows)
            return self._late(item, "it ran, but not in time")
        labels = self.entry.package.manifest.labels
        return self._outcome(
            Status.OK,
            labels=tuple(labels[index] for index in judgement.labels[rows]),
            scores=tuple(scores.tolist()),
            confidences=tuple(confidences.tolist()),
            run_ms=run_s * 1000,
        )

    def _late(self, item: Item, error: str) -> Outcome:
        queue_ms = (time.monotonic() - item.arrived_s) * 1000
        return self._outcome(Status.EXPIRED, error=error, queue_ms=queue_ms)

    def _outcome(self, status: Status, **details: object) -> Outcome:
        return Outcome(status, model=self.entry.family, release=self.entry.release, **details)  # type: ignore[arg-type]
