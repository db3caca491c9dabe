"""What the agent counts on its hot path: plain numbers, no lock, no object per message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from contract.status import Fault, Reason, Tier
from edge_agent.observe.latency import LatencyBuckets
from edge_agent.types import F64, JsonObject, Verdict

MAX_STREAM_FAULTS = 10_000
OTHER_STREAMS = "(other)"
_Label = TypeVar("_Label", bound=StrEnum)


class Stage(StrEnum):
    """A part of the way from a message's arrival to its verdict, in order."""

    WAIT = "wait"
    """From arrival until the batch was taken up."""
    DECODE = "decode"
    VALIDATE = "validate"
    WINDOW = "window"
    INFERENCE = "inference"
    DECISION = "decision"
    HUB = "hub"
    """From asking the hub until its answer, or until the wait was over."""
    EMIT = "emit"
    """From the decision until the verdict was handed to the broker client."""
    TOTAL = "total"
    """From arrival until the verdict was handed to the broker client."""


class EscalationEnd(StrEnum):
    """How an escalation ended, where an answer came; the others are still open or were given up."""

    ANSWERED = "answered"
    """The hub's answer became the verdict."""
    REVISED = "revised"
    """The hub's answer came after the verdict and became a revision."""


class Counters:
    """Counts since the start; every method is cheap and none raises.

    Use from one thread. A closed list of labels bounds every dictionary but that of the faults per
    stream, which stops at 10,000 entries and counts the rest under `(other)`.
    """

    def __init__(self) -> None:
        self.messages = 0
        self.message_bytes = 0
        self.readings = 0
        self.deadline_misses = 0
        self.escalated = 0
        self.faults: dict[Fault, int] = dict.fromkeys(Fault, 0)
        self.stream_faults: dict[tuple[str, Fault], int] = {}
        self.verdicts: dict[Tier, int] = dict.fromkeys(Tier, 0)
        self.reasons: dict[Reason, int] = dict.fromkeys(Reason, 0)
        self.escalations: dict[EscalationEnd, int] = dict.fromkeys(EscalationEnd, 0)
        self.revisions: dict[tuple[Tier, bool], int] = {
            (tier, agrees): 0 for tier in Tier for agrees in (True, False)
        }
        self.alarms = 0
        self.stages: dict[Stage, LatencyBuckets] = {stage: LatencyBuckets() for stage in Stage}
        self.loop_lag = LatencyBuckets()

    def count_messages(self, count: int, *, payload_bytes: int = 0) -> None:
        """Messages taken from the brokers."""
        self.messages += count
        self.message_bytes += payload_bytes

    def count_readings(self, count: int) -> None:
        """Readings accepted."""
        self.readings += count

    def count_fault(self, fault: Fault, n: int = 1, *, stream: str = "") -> None:
        """A message, reading or channel that was not used, or was flagged."""
        self.faults[fault] += n
        if not stream:
            return
        key = (stream, fault)
        if key not in self.stream_faults and len(self.stream_faults) >= MAX_STREAM_FAULTS:
            key = (OTHER_STREAMS, fault)
        self.stream_faults[key] = self.stream_faults.get(key, 0) + n

    def count_verdicts(self, verdicts: Sequence[Verdict], *, missed: int = 0) -> None:
        """Final verdicts with their tiers, reasons and stage times, and how many were late."""
        self.deadline_misses += missed
        stages: dict[str, list[float]] = {}
        for verdict in verdicts:
            self.verdicts[verdict.tier] += 1
            for reason in verdict.reasons:
                self.reasons[reason] += 1
            for name, value_ms in verdict.stages_ms.items():
                stages.setdefault(name, []).append(value_ms)
        for name, values_ms in stages.items():
            self.observe_stage(Stage(name), values_ms)

    def observe_stage(self, stage: Stage, values_ms: Sequence[float] | F64) -> None:
        """Durations of one stage, in milliseconds."""
        if len(values_ms) == 1:
            self.stages[stage].add(float(values_ms[0]))
        else:
            self.stages[stage].add_many(values_ms)

    def count_escalated(self, count: int = 1) -> None:
        """Windows sent to the hub, or queued for it."""
        self.escalated += count

    def end_escalation(self, end: EscalationEnd, count: int = 1) -> None:
        """Escalations that are over."""
        self.escalations[end] += count

    def count_revision(self, tier: Tier, *, agrees: bool) -> None:
        """A revision of a verdict that this tier had given."""
        self.revisions[tier, agrees] += 1

    def snapshot(self) -> JsonObject:
        """All of it as JSON, for `edge-agent status`; zeros of the closed lists are left out."""
        return {
            "messages": self.messages,
            "message_bytes": self.message_bytes,
            "readings": self.readings,
            "verdicts": _counted(self.verdicts),
            "reasons": _counted(self.reasons),
            "faults": _counted(self.faults),
            "deadline_misses": self.deadline_misses,
            "alarms": self.alarms,
            "escalated": self.escalated,
            "escalations": _counted(self.escalations),
            "revisions": {
                f"{tier}_{'agrees' if agrees else 'disagrees'}": count
                for (tier, agrees), count in self.revisions.items()
                if count
            },
            "stages_ms": {
                str(stage): buckets.summary()
                for stage, buckets in self.stages.items()
                if buckets.count
            },
            "loop_lag_ms": self.loop_lag.summary(),
        }


def _counted(counts: Mapping[_Label, int]) -> dict[str, int]:
    return {str(label): count for label, count in counts.items() if count}
