"""Requests to the hub's models: with a deadline, at most one retry, and a cancel for what nobody awaits."""

from __future__ import annotations

import asyncio
from typing import Final

from contract.encoding import IDENTITY
from contract.messages import SCHEMA_VERSION
from contract.status import Priority, Status
from contract.subjects import (
    BUDGET_MS,
    ENCODING,
    REQUEST,
    SCHEMA,
    cancel_subject,
    infer_subject,
    is_request_id,
)
from edge_agent.errors import LinkTimeout, Refused
from edge_agent.types import HubLink, Reply

MIN_RETRY_S: Final = 0.005


class HubInference:
    """Asks models of the hub.

    Failure: LinkError. Cancellation: the hub is told, best effort. Duplicates: a retry carries the same
    request id, and only follows BUSY, so a request is computed at most once.
    """

    def __init__(self, link: HubLink, *, device: str) -> None:
        self._link = link
        self._device = device

    async def ask(
        self,
        *,
        request_id: str,
        model: str,
        priority: Priority,
        body: bytes,
        budget_ms: float,
        timeout_s: float,
    ) -> Reply:
        """The hub's reply within `timeout_s`; its body is an InferAnswer when the status is OK.

        `budget_ms` is what is left of the deadline now: the hub is told that less half the round trip.
        """
        if not is_request_id(request_id):
            raise Refused(f"{request_id!r} may not be the id of a request")
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        subject = infer_subject(self._device, priority, model)
        try:
            reply = await self._once(
                subject, body, request_id=request_id, budget_ms=budget_ms, timeout_s=timeout_s
            )
            spent_s = loop.time() - begin_s
            pause_s = reply.retry_after_ms / 1e3
            left_s = timeout_s - spent_s - pause_s
            round_trip_s = self._link.state().rtt_ms / 1e3
            if reply.status is not Status.BUSY or left_s <= max(MIN_RETRY_S, round_trip_s):
                return reply
            await asyncio.sleep(pause_s)
            spent_ms = (loop.time() - begin_s) * 1e3
            return await self._once(
                subject,
                body,
                request_id=request_id,
                budget_ms=budget_ms - spent_ms,
                timeout_s=timeout_s - spent_ms / 1e3,
            )
        except (LinkTimeout, asyncio.CancelledError):
            self.cancel(request_id)
            raise

    def cancel(self, request_id: str) -> None:
        """Tells the hub that nobody waits any more; best effort."""
        self._link.send(cancel_subject(self._device, request_id), b"")

    async def _once(
        self, subject: str, body: bytes, *, request_id: str, budget_ms: float, timeout_s: float
    ) -> Reply:
        budget_ms = max(budget_ms - self._link.state().rtt_ms / 2, 0.0)
        headers = {
            SCHEMA: str(SCHEMA_VERSION),
            ENCODING: IDENTITY,
            REQUEST: request_id,
            BUDGET_MS: f"{budget_ms:.1f}",
        }
        return await self._link.request(subject, body, headers=headers, timeout_s=timeout_s)
