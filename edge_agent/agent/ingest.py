"""The loop from messages to verdicts: decided at once, stored together, acknowledged after the commit.

While the disk cannot be written the loop goes on: what it submits waits in the outbox's memory, and so
do the acknowledgements. A message is acknowledged unstored only when its broker would send no more
(`outbox/queue.py`): its raw readings are then given up and counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

import msgspec

from contract.encoding import encode
from contract.messages import Revision
from contract.status import RowClass, Tier
from edge_agent.agent.emitting import Emitter
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.observe.metrics import Counters, EscalationEnd
from edge_agent.observe.rollups import Rollups
from edge_agent.pipeline.core import Pipeline
from edge_agent.pipeline.outcome import Ask, Outcome
from edge_agent.sources.redelivery import Redelivery
from edge_agent.types import (
    Clock,
    Commit,
    LinkState,
    MessageBatch,
    NewRow,
    Round,
    Source,
    Urgency,
    Verdict,
)

_encoder = msgspec.msgpack.Encoder()


class Store(Protocol):
    """What this loop needs of the outbox."""

    def submit(self, commit: Commit) -> asyncio.Future[int]:
        """Stores in order; the future ends once it is durable, or its messages were given up."""

    async def ready(self) -> None:
        """Waits while too much waits for the disk."""

    def checkpoint_due(self) -> bool:
        """Whether the streams' checkpoints should go with the next commit."""


class Ingest:
    """Owns the order of things: decide, give out, store, acknowledge.

    `ask` hands windows to whoever asks the hub; it may call `settle` and `revise` at any time.
    """

    def __init__(
        self,
        source: Source,
        pipeline: Pipeline,
        store: Store,
        *,
        emitter: Emitter,
        redelivery: Redelivery,
        counters: Counters,
        rollups: Rollups,
        clock: Clock,
        link: Callable[[], LinkState],
        relaxed: Collection[str] = (),
    ) -> None:
        """`link` tells the state of the link to the hub.

        `relaxed` are the broker sessions whose QoS 0 readings may wait for the disk in memory.
        """
        self._source = source
        self._pipeline = pipeline
        self._store = store
        self._emitter = emitter
        self._redelivery = redelivery
        self._counters = counters
        self._rollups = rollups
        self._clock = clock
        self._link = link
        self._relaxed = frozenset(relaxed)
        self._log = get_logger()
        self._last: asyncio.Future[int] | None = None
        self._busy_since_ns: int | None = None
        self.repeated = 0
        self.ask: Callable[[Ask], None] = _nobody_to_ask

    @property
    def undecided_s(self) -> float:
        """How long the batch in hand has waited; 0 when there is none."""
        since = self._busy_since_ns
        return 0.0 if since is None else (self._clock.mono_ns() - since) / 1e9

    async def run(self) -> None:
        """Takes batches until the source ends."""
        while (batch := await self._source.next_batch()) is not None:
            self._busy_since_ns = int(batch.arrivals_ns[0])
            await self._store.ready()
            self.take(batch)
            self._busy_since_ns = None

    def take(self, batch: MessageBatch) -> None:
        """One batch, decided and given out now; stored and acknowledged as soon as the disk allows."""
        self._counters.count_messages(
            len(batch), payload_bytes=sum(len(payload) for payload in batch.payloads)
        )
        sifted = self._redelivery.sift(batch)
        self.repeated += sifted.repeated
        outcome = self._pipeline.process(sifted.fresh, self._link(), suspects=sifted.suspects)
        self.repeated += outcome.repeated
        self._emitter.emit(outcome)
        for stream, why in self._pipeline.model_faults().items():
            self._log.warning(Event.MODEL_FAILED, stream=stream, why=why)
        pending = tuple(
            (verdict.id, _encoder.encode(verdict))
            for ask in outcome.asks
            for verdict in ask.verdicts
        )
        rows = tuple(outcome.rows)
        self._counters.count_escalated(sum(row.kind is RowClass.ESCALATION for row in rows))
        # Repeats are in the broker's count already.
        waiting = sum(1 for qos in sifted.fresh.qos if qos)
        if rows or pending or batch.new_session or (waiting and self._behind()):
            due = self._store.checkpoint_due()
            self._submit(
                Commit(
                    rows=rows + self._rollup(),
                    packets=() if sifted.packets is None else (sifted.packets,),
                    checkpoints=self._pipeline.checkpoints() if due else (),
                    pending=pending,
                    round=Round.WHOLE if due else Round.NONE,
                    messages=waiting,
                    urgency=self._urgency(batch, outcome),
                )
            )
        self._acknowledge(batch)
        for ask in outcome.asks:
            self._counters.count_escalated(len(ask.verdicts))
            self.ask(ask)

    def _behind(self) -> bool:
        """Whether an acknowledgement now would overtake one that waits for the disk."""
        return self._last is not None and not self._last.done()

    def _urgency(self, batch: MessageBatch, outcome: Outcome) -> Urgency:
        """QoS 0 promises nothing, so plain readings that came with it may wait for the disk."""
        if batch.session not in self._relaxed or any(batch.qos) or batch.new_session:
            return Urgency.NOW
        plain = all(row.kind is RowClass.RAW for row in outcome.rows)
        return Urgency.SOON if plain and not outcome.asks else Urgency.NOW

    def settle(self, verdicts: Iterable[Verdict], rows: Iterable[NewRow]) -> None:
        """Gives out verdicts that had waited for the hub."""
        outcome = Outcome()
        settled = []
        for verdict in verdicts:
            self._pipeline.settle(verdict, outcome, escalated=True)
            settled.append(verdict.id)
            if verdict.tier is Tier.HUB:
                self._counters.end_escalation(EscalationEnd.ANSWERED)
        self._emitter.emit(outcome)
        self._submit(Commit(rows=(*outcome.rows, *rows), settled=tuple(settled)))

    def settle_pending(self, verdicts: list[Verdict], ids: list[str]) -> None:
        """Gives out verdicts of the last run, and forgets those that could not be read."""
        self.settle(verdicts, ())
        self._submit(Commit(settled=tuple(ids)))

    def revise(self, revisions: list[Revision], ask: Ask) -> None:
        """Gives out answers that came after the local verdict, and stores them for the hub."""
        for revision, given in zip(revisions, ask.verdicts, strict=True):
            self._emitter.revise(revision, given=given)
        self._counters.end_escalation(EscalationEnd.REVISED, len(revisions))
        stamp = self._clock.stamp()
        rows = tuple(
            NewRow(RowClass.REVISION, encode(msgspec.structs.replace(revision, clock=stamp)))
            for revision in revisions
        )
        self._submit(Commit(rows=rows))

    def flush_rollups(self) -> None:
        """Stores the rollups of an interval that ended while no message came."""
        if rows := self._rollup():
            self._submit(Commit(rows=rows))

    def close(self) -> None:
        """Stores what was only in memory; call before the outbox closes."""
        rows = self._rollups.flush(self._clock.wall_s(), clock=self._clock.stamp())
        self._submit(Commit(rows=rows, checkpoints=self._pipeline.checkpoints(), round=Round.WHOLE))

    def _rollup(self) -> tuple[NewRow, ...]:
        now_s = self._clock.wall_s()
        if not self._rollups.due(now_s):
            return ()
        return self._rollups.flush(now_s, clock=self._clock.stamp())

    def _submit(self, commit: Commit) -> None:
        self._last = self._store.submit(commit)

    def _acknowledge(self, batch: MessageBatch) -> None:
        """After the commit of this batch and all before it: brokers expect acknowledgements in order."""
        if not any(batch.qos):
            return
        if self._last is None or self._last.done():
            self._acknowledge_now(batch, self._last)
        else:
            # What the messages said is not needed for that, and may have to wait for long.
            ids = replace(batch, topics=[], payloads=[])
            self._last.add_done_callback(partial(self._acknowledge_now, ids))

    def _acknowledge_now(self, batch: MessageBatch, stored: asyncio.Future[int] | None) -> None:
        if stored is not None and (stored.cancelled() or stored.exception() is not None):
            return  # never stored: the broker keeps the messages and sends them again
        self._source.acknowledge(batch)


def read_pending(body: bytes) -> Verdict | None:
    """A verdict that waited for the hub when the agent stopped; None when it cannot be read."""
    try:
        return msgspec.msgpack.decode(body, type=Verdict)
    except msgspec.DecodeError:
        return None


def _nobody_to_ask(ask: Ask) -> None:
    raise RuntimeError(f"a window of {ask.family} was to be asked about, but there is no hub")
