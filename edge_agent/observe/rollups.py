"""What each stream decided in an interval, for the hub: most verdicts are worth a count, not an event."""

from __future__ import annotations

from dataclasses import dataclass, field

from contract.encoding import encode
from contract.messages import Clock, Rollup
from contract.status import RowClass
from edge_agent.observe.latency import bucket_of
from edge_agent.types import FaultNote, NewRow, Verdict


@dataclass(slots=True)
class _Interval:
    verdicts: int = 0
    by_tier: dict[str, int] = field(default_factory=dict)
    by_label: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    score_max: float = 0.0
    latency: dict[int, int] = field(default_factory=dict)


class Rollups:
    """Counts by stream since the last flush; bounded by the number of streams."""

    def __init__(self, *, interval_s: float, now_s: float) -> None:
        """The first interval begins now."""
        self._interval_s = interval_s
        self._from_s = now_s
        self._streams: dict[str, _Interval] = {}

    def verdict(self, verdict: Verdict, latency_ms: float) -> None:
        """Counts one final verdict."""
        into = self._streams.get(verdict.stream)
        if into is None:
            into = self._streams[verdict.stream] = _Interval()
        into.verdicts += 1
        into.by_tier[verdict.tier] = into.by_tier.get(verdict.tier, 0) + 1
        into.by_label[verdict.label] = into.by_label.get(verdict.label, 0) + 1
        into.score_max = max(into.score_max, verdict.score)
        bucket = bucket_of(latency_ms)
        into.latency[bucket] = into.latency.get(bucket, 0) + 1

    def fault(self, note: FaultNote) -> None:
        """Counts a fault of a stream that is known; the others are the device's own metrics."""
        if note.stream:
            into = self._streams.setdefault(note.stream, _Interval())
            into.faults[note.fault] = into.faults.get(note.fault, 0) + note.count

    def due(self, now_s: float) -> bool:
        """Whether the interval is over, or the clock jumped back."""
        return not 0 <= now_s - self._from_s < self._interval_s

    def flush(self, now_s: float, *, clock: Clock | None = None) -> tuple[NewRow, ...]:
        """One row for each stream that had anything; begins the next interval. `clock` is of now."""
        rows = tuple(
            NewRow(
                RowClass.ROLLUP,
                encode(
                    Rollup(
                        stream=stream,
                        from_s=self._from_s,
                        to_s=now_s,
                        verdicts=each.verdicts,
                        by_tier=each.by_tier,
                        by_label=each.by_label,
                        faults=each.faults,
                        score_max=each.score_max,
                        latency_buckets=each.latency,
                        clock=clock,
                    )
                ),
            )
            for stream, each in self._streams.items()
        )
        self._streams = {}
        self._from_s = now_s
        return rows
