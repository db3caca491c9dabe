"""Requests over NATS become asks, and outcomes become replies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from cloud_hub.inference.service import InferenceService
from cloud_hub.metrics import HubMetrics
from cloud_hub.settings import InferenceSettings
from cloud_hub.types import Ask, Inbound, Outcome, Post
from contract import subjects
from contract.encoding import EncodingError, decode, encode, expand
from contract.messages import SCHEMA_VERSION, InferAnswer, InferRequest
from contract.status import Priority, Status


class RequestError(ValueError):
    """A request that cannot be read; the text says why."""


class RequestDoor:
    """Takes requests and cancels of devices; each request gets one reply, in the device's own inbox."""

    def __init__(
        self,
        service: InferenceService,
        *,
        post: Post,
        settings: InferenceSettings,
        metrics: HubMetrics,
    ) -> None:
        self._service = service
        self._post = post
        self._default_budget_s = settings.default_budget_ms / 1000
        self._metrics = metrics

    def on_request(self, message: Inbound) -> None:
        """Asks the models; never blocks."""
        request = message.headers.get(subjects.REQUEST, "")
        reply = partial(self._reply, message.reply, request)
        try:
            ask = self._ask(message, request)
        except (RequestError, EncodingError) as error:
            self._metrics.requests.labels("unknown", Status.BAD_INPUT.value).inc()
            reply(Outcome(Status.BAD_INPUT, error=str(error)))
            return
        self._service.submit(ask, reply)

    def on_cancel(self, message: Inbound) -> None:
        """Takes a request back that still waits; never blocks."""
        if len(message.rest) == 1:
            self._service.cancel(message.device, message.rest[0])

    def _ask(self, message: Inbound, request: str) -> Ask:
        if not subjects.is_request_id(request):
            raise RequestError(
                f"the header {subjects.REQUEST} needs 1 to 64 letters, digits, - or _"
            )
        schema = message.headers.get(subjects.SCHEMA, str(SCHEMA_VERSION))
        if schema != str(SCHEMA_VERSION):
            raise RequestError(f"schema {schema[:16]!r}; this hub reads {SCHEMA_VERSION}")
        priority, model = message.rest
        if priority not in set(Priority):
            raise RequestError(f"unknown priority; known: {', '.join(Priority)}")
        plain = expand(message.body, message.headers.get(subjects.ENCODING, ""))
        body = decode(plain, InferRequest)
        if body.model != model:
            raise RequestError("the request names another model than its subject")
        return Ask(
            device=message.device,
            request=request,
            priority=Priority(priority),
            model=model,
            feature_digest=body.feature_digest,
            features=body.features,
            arrived_mono_s=message.arrived_mono_s,
            budget_s=self._budget_s(message.headers),
        )

    def _budget_s(self, headers: Mapping[str, str]) -> float:
        text = headers.get(subjects.BUDGET_MS)
        if text is None:
            return self._default_budget_s
        try:
            budget_s = float(text) / 1000
        except ValueError:
            budget_s = math.nan
        if not math.isfinite(budget_s):
            raise RequestError(f"the header {subjects.BUDGET_MS} is not a number of milliseconds")
        return budget_s

    def _reply(self, subject: str, request: str, outcome: Outcome) -> None:
        headers = {
            subjects.STATUS: outcome.status.value,
            subjects.REQUEST: request,
            subjects.SCHEMA: str(SCHEMA_VERSION),
            subjects.QUEUE_MS: f"{outcome.queue_ms:.2f}",
            subjects.RUN_MS: f"{outcome.run_ms:.2f}",
            subjects.BATCH: str(outcome.batch),
        }
        if outcome.retry_after_ms > 0:
            headers[subjects.RETRY_AFTER_MS] = f"{outcome.retry_after_ms:.1f}"
        answer = InferAnswer(
            model=outcome.model,
            release=outcome.release,
            labels=outcome.labels,
            scores=outcome.scores,
            confidences=outcome.confidences,
            error=outcome.error,
        )
        self._post.post(subject, encode(answer), headers)
