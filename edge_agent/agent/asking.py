"""Puts windows to the hub while the local answers are in hand; every window gets one final verdict.

Each request is a task of this owner; there are at most `MOST_ASKS` at a time. When an answer comes
after the local verdict was given it becomes a revision; when none comes, the window is queued.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from contract.encoding import encode
from contract.messages import InferAnswer, InferRequest, Revision
from contract.status import Priority, Reason
from contract.tensors import pack_array
from edge_agent.agent.answers import from_here, from_hub, read_answer, revisions
from edge_agent.errors import LinkDown, LinkError, LinkTimeout, NoResponders
from edge_agent.pipeline.outcome import Ask, escalation_row
from edge_agent.types import Clock, NewRow, Reply, Verdict

MOST_ASKS = 64


class Hub(Protocol):
    """What asking needs of the hub's inference."""

    def ask(
        self,
        *,
        request_id: str,
        model: str,
        priority: Priority,
        body: bytes,
        budget_ms: float,
        timeout_s: float,
    ) -> Coroutine[Any, Any, Reply]:
        """One request; raises LinkError. When it is cancelled, the hub is told."""


class Asker:
    """Owns the requests in flight.

    `settle` gives final verdicts out (with rows to store beside them), `revise` gives revisions out.
    """

    def __init__(
        self,
        hub: Hub,
        *,
        clock: Clock,
        late_s: float,
        queue_unanswered: bool,
        settle: Callable[[list[Verdict], list[NewRow]], None],
        revise: Callable[[list[Revision], Ask], None],
    ) -> None:
        """Nothing is in flight yet."""
        self._hub = hub
        self._clock = clock
        self._late_s = late_s
        self._queue_unanswered = queue_unanswered
        self._settle = settle
        self._revise = revise
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Set when a request's task died of an error that it did not expect."""

    @property
    def in_flight(self) -> int:
        """Requests that have not ended."""
        return len(self._tasks)

    def start(self, ask: Ask) -> None:
        """Puts the windows to the hub; gives the local answers at once when too many wait."""
        if len(self._tasks) >= MOST_ASKS or self._closing.is_set():
            self._settle(from_here(ask, Reason.HUB_BUSY, hub_ms=0.0), [])
            return
        task = asyncio.get_running_loop().create_task(self._run(ask), name=f"ask-{ask.family}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def watch(self) -> None:
        """Runs as long as nothing fails; raises what ended a request's task unexpectedly."""
        await asyncio.shield(self.failed)

    async def close(self) -> None:
        """Gives the local answers to all that wait, at once."""
        self._closing.set()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=1.0)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not self.failed.done():
            self.failed.set_exception(error)

    async def _run(self, ask: Ask) -> None:
        begin_ns = self._clock.mono_ns()
        wait_s = max(0.0, (min(ask.deadlines_ns) - begin_ns) / 1e9)
        request_id = uuid.uuid4().hex
        request = InferRequest(
            model=ask.family,
            feature_digest=ask.feature_digest,
            features=pack_array(ask.features),
            stream=ask.verdicts[0].stream,
            release=ask.release,
        )
        loop = asyncio.get_running_loop()
        asking = loop.create_task(
            self._hub.ask(
                request_id=request_id,
                model=ask.family,
                priority=Priority.RT,
                body=encode(request),
                budget_ms=wait_s * 1e3,
                timeout_s=wait_s + self._late_s,
            ),
            name=f"hub-request-{request_id}",
        )
        closing = loop.create_task(self._closing.wait(), name="ask-closing")
        try:
            await asyncio.wait(
                {asking, closing}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED
            )
            hub_ms = (self._clock.mono_ns() - begin_ns) / 1e6
            if asking.done():
                self._in_time(ask, asking, hub_ms)
                return
            self._settle(from_here(ask, Reason.HUB_TIMEOUT, hub_ms=hub_ms), [])
            await asyncio.wait(
                {asking, closing}, timeout=self._late_s, return_when=asyncio.FIRST_COMPLETED
            )
            self._late(ask, asking)
        finally:
            asking.cancel()
            closing.cancel()
            await asyncio.gather(asking, closing, return_exceptions=True)

    def _in_time(self, ask: Ask, asking: asyncio.Future[Reply], hub_ms: float) -> None:
        answer = _result(ask, asking)
        if isinstance(answer, InferAnswer):
            self._settle(from_hub(ask, answer, hub_ms=hub_ms), [])
            return
        rows = self._unanswered(ask) if answer in _WORTH_QUEUEING else []
        reasons = (answer, Reason.BULK_ESCALATED) if rows else (answer,)
        self._settle(from_here(ask, *reasons, hub_ms=hub_ms), rows)

    def _late(self, ask: Ask, asking: asyncio.Future[Reply]) -> None:
        answer = _result(ask, asking) if asking.done() else Reason.HUB_TIMEOUT
        if isinstance(answer, InferAnswer):
            self._revise(revisions(ask, answer), ask)
        elif answer in _WORTH_QUEUEING and (rows := self._unanswered(ask)):
            self._settle([], rows)

    def _unanswered(self, ask: Ask) -> list[NewRow]:
        """Rows that put the windows to the hub again, when it is back."""
        if not self._queue_unanswered:
            return []
        return [
            escalation_row(
                verdict, ask.features[index : index + 1], feature_digest=ask.feature_digest
            )
            for index, verdict in enumerate(ask.verdicts)
        ]


_WORTH_QUEUEING = (Reason.HUB_OFFLINE, Reason.HUB_TIMEOUT, Reason.HUB_BUSY)


def _result(ask: Ask, asking: asyncio.Future[Reply]) -> InferAnswer | Reason:
    if asking.cancelled():  # the link was thrown away under the request
        return Reason.HUB_OFFLINE
    try:
        return read_answer(ask, asking.result())
    except (NoResponders, LinkDown):
        return Reason.HUB_OFFLINE
    except LinkTimeout:
        return Reason.HUB_TIMEOUT
    except LinkError:
        return Reason.HUB_REFUSED
