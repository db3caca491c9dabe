"""What the hub's answer, or its absence, makes of the local verdicts (pure)."""

from __future__ import annotations

import math
from dataclasses import replace

from contract.encoding import EncodingError, decode
from contract.messages import InferAnswer, Revision
from contract.status import Reason, Status, Tier
from edge_agent.pipeline.outcome import Ask
from edge_agent.types import Reply, Verdict

REASON_OF = {
    Status.BUSY: Reason.HUB_BUSY,
    Status.EXPIRED: Reason.HUB_TIMEOUT,
    Status.CANCELLED: Reason.HUB_TIMEOUT,
}


def read_answer(ask: Ask, reply: Reply) -> InferAnswer | Reason:
    """The hub's answer to all windows of an ask, or the reason why there is none."""
    if reply.status is not Status.OK:
        return REASON_OF.get(reply.status, Reason.HUB_REFUSED)
    try:
        answer = decode(reply.body, InferAnswer)
    except EncodingError:
        return Reason.HUB_REFUSED
    count = len(ask.verdicts)
    if not len(answer.labels) == len(answer.scores) == len(answer.confidences) == count:
        return Reason.HUB_REFUSED
    if not all(math.isfinite(score) for score in answer.scores):
        return Reason.HUB_REFUSED
    if not all(0.0 <= confidence <= 1.0 for confidence in answer.confidences):
        return Reason.HUB_REFUSED
    if not set(answer.labels) <= set(ask.labels):
        return Reason.HUB_REFUSED  # another model's words: nobody here knows what they mean
    return answer


def from_hub(ask: Ask, answer: InferAnswer, *, hub_ms: float) -> list[Verdict]:
    """The final verdicts when the hub answered in time."""
    return [
        replace(
            local,
            label=answer.labels[index],
            score=answer.scores[index],
            confidence=answer.confidences[index],
            tier=Tier.HUB,
            release=answer.release,
            reasons=(*local.reasons, Reason.HUB_ANSWERED),
            stages_ms=_with_hub(local, hub_ms),
        )
        for index, local in enumerate(ask.verdicts)
    ]


def from_here(ask: Ask, *reasons: Reason, hub_ms: float) -> list[Verdict]:
    """The final verdicts when the hub did not answer in time: the local ones, with the reasons."""
    return [
        replace(local, reasons=(*local.reasons, *reasons), stages_ms=_with_hub(local, hub_ms))
        for local in ask.verdicts
    ]


def revisions(ask: Ask, answer: InferAnswer) -> list[Revision]:
    """The hub's answer when the local verdicts had already been given."""
    return [
        Revision(
            verdict=local.id,
            stream=local.stream,
            label=answer.labels[index],
            score=answer.scores[index],
            confidence=answer.confidences[index],
            model=answer.model,
            release=answer.release,
            time_s=local.time_s,
        )
        for index, local in enumerate(ask.verdicts)
    ]


def _with_hub(verdict: Verdict, hub_ms: float) -> dict[str, float]:
    return {**verdict.stages_ms, "hub": hub_ms} if verdict.stages_ms else {}
