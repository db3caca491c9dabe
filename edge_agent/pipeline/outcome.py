"""What a batch of messages led to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from contract.encoding import encode
from contract.messages import Clock, Escalation, VerdictEvent
from contract.status import RowClass
from contract.tensors import pack_array
from edge_agent.types import F32, Alarm, FaultNote, NewRow, Verdict


@dataclass(frozen=True, slots=True)
class Ask:
    """Windows of one model that are put to the hub in one request.

    `verdicts` hold the local answers, given when `deadlines_ns` (monotonic, when the wait is over)
    have passed; `features` [b, f] are the request.
    """

    family: str
    release: int
    feature_digest: str
    labels: tuple[str, ...]
    features: F32
    verdicts: list[Verdict]
    deadlines_ns: list[int]


@dataclass(slots=True)
class Outcome:
    """Final verdicts in order, windows to ask about, alarms, rows to store, faults to count.

    `repeated` readings were stored before and are not among the `readings`.
    """

    readings: int = 0
    repeated: int = 0
    verdicts: list[Verdict] = field(default_factory=list)
    changed: list[bool] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    rows: list[NewRow] = field(default_factory=list)
    faults: list[FaultNote] = field(default_factory=list)


def verdict_id(device: str, epoch: str, stream: str, model: str, number: int) -> str:
    """The id of the verdict on a stream's window: the same after a redelivery or a restart."""
    text = f"{device}|{epoch}|{stream}|{model}|{number}"
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def verdict_row(verdict: Verdict, kind: RowClass, clock: Clock) -> NewRow:
    """The outbox row of a verdict event or an alarm."""
    event = VerdictEvent(
        id=verdict.id,
        stream=verdict.stream,
        time_s=verdict.time_s,
        label=verdict.label,
        score=verdict.score,
        confidence=verdict.confidence,
        tier=verdict.tier,
        model=verdict.model,
        release=verdict.release,
        stale_ms=verdict.stale_ms,
        reasons=verdict.reasons,
        stages_ms=verdict.stages_ms,
        clock=clock,
        window_from_s=verdict.window_from_s,
    )
    return NewRow(kind, encode(event))


def escalation_row(verdict: Verdict, features: F32, *, feature_digest: str) -> NewRow:
    """The outbox row that puts one window [1, f] to the hub without waiting."""
    escalation = Escalation(
        verdict=verdict.id,
        stream=verdict.stream,
        model=verdict.model,
        release=verdict.release,
        feature_digest=feature_digest,
        features=pack_array(features),
        label=verdict.label,
        confidence=verdict.confidence,
        time_s=verdict.time_s,
    )
    return NewRow(RowClass.ESCALATION, encode(escalation), model=verdict.model)
