"""Whether the hub is asked about a window (pure): every input is a value, every outcome has reasons."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from contract.status import Health, Reason, Tier
from edge_agent.routing.ladder import LocalAnswer

EMIT_MARGIN_MS = 10.0
"""Kept back from the deadline for handing the verdict out."""
LEAST_WAIT_MS = 5.0
"""A shorter wait is not worth a request."""


class Action(StrEnum):
    """What happens to a window."""

    ANSWER = "answer"
    """The local answer is final."""
    ASK = "ask"
    """The hub is asked; the local answer is given when the wait is over."""
    QUEUE = "queue"
    """The local answer is given, and the window is queued for the hub; a revision may follow."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator allows."""

    escalate_below: float
    allowed: bool
    bulk_when_offline: bool


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known at the moment of the decision; `tokens` are escalations the budget has left."""

    health: Health
    rtt_ms: float
    time_left_ms: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Decision:
    """The action, how long it may wait, and why."""

    action: Action
    wait_ms: float
    reasons: tuple[Reason, ...]


def decide(local: LocalAnswer, policy: Policy, now: Situation) -> Decision:
    """Decides about one window. Never asks without time, tokens, or a link."""
    if local.mandatory:
        return Decision(Action.ANSWER, 0.0, local.reasons)
    uncertain = local.confidence < policy.escalate_below or not local.in_domain
    if local.tier is not Tier.MODEL:
        return Decision(Action.ANSWER, 0.0, local.reasons)
    if not uncertain:
        return Decision(Action.ANSWER, 0.0, (*local.reasons, Reason.CONFIDENT))
    reasons = (*local.reasons, Reason.UNCERTAIN)
    if not policy.allowed:
        return Decision(Action.ANSWER, 0.0, (*reasons, Reason.HUB_DISABLED))
    if now.tokens < 1.0:
        return Decision(Action.ANSWER, 0.0, (*reasons, Reason.RATE_LIMITED))
    if now.health is Health.OFFLINE:
        return _queue(policy, (*reasons, Reason.HUB_OFFLINE))
    wait_ms = now.time_left_ms - EMIT_MARGIN_MS
    if wait_ms < max(LEAST_WAIT_MS, 1.5 * now.rtt_ms):
        return _queue(policy, (*reasons, Reason.NO_TIME))
    return Decision(Action.ASK, wait_ms, reasons)


def _queue(policy: Policy, reasons: tuple[Reason, ...]) -> Decision:
    if not policy.bulk_when_offline:
        return Decision(Action.ANSWER, 0.0, reasons)
    return Decision(Action.QUEUE, 0.0, (*reasons, Reason.BULK_ESCALATED))
