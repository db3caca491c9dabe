"""Pipelines over small configurations, and what a store would keep of their work."""

from dataclasses import dataclass, field
from typing import Any

from contract.encoding import decode
from contract.messages import RawRow
from contract.status import Fault, RowClass
from edge_agent.inference.scorer import Scorer
from edge_agent.pipeline.core import Pipeline
from edge_agent.pipeline.outcome import Outcome
from edge_agent.settings import Settings
from edge_agent.types import Recovery, StoredRow, Verdict
from tests.fakes.clocks import StandingClock


def pipeline_of(
    settings: Settings, scorers: dict[str, Scorer] | None = None, **more: Any
) -> Pipeline:
    """A pipeline as a replay has it: time stands still."""
    given: dict[str, Any] = {"clock": StandingClock(), "epoch": "e1", "timed": False} | more
    return Pipeline(settings, scorers or {}, **given)


def faults_of(outcome: Outcome) -> dict[str, int]:
    """How many of each fault."""
    counts: dict[str, int] = {}
    for note in outcome.faults:
        counts[str(note.fault)] = counts.get(str(note.fault), 0) + note.count
    return counts


def details_of(outcome: Outcome, fault: Fault) -> list[str]:
    """What was said about a fault."""
    return [note.detail for note in outcome.faults if note.fault is fault and note.detail]


def raw_of(outcome: Outcome) -> list[RawRow]:
    """The raw rows of an outcome, decoded."""
    return [decode(row.body, RawRow) for row in outcome.rows if row.kind is RowClass.RAW]


@dataclass
class Spool:
    """An outbox twin: raw rows by number, and the newest checkpoint of each stream."""

    rows: list[StoredRow] = field(default_factory=list)
    checkpoints: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def commit(self, pipeline: Pipeline, outcome: Outcome, *, checkpoint: bool) -> None:
        """Stores what one batch led to."""
        for row in outcome.rows:
            if row.kind is RowClass.RAW:
                seq = len(self.rows) + 1
                self.rows.append(StoredRow(seq, row.kind, row.body, row.readings, "", 0.0))
        if checkpoint:
            for each in pipeline.checkpoints():
                self.checkpoints[each.stream] = (len(self.rows), each.body)

    def recovery(self) -> Recovery:
        """What a new start finds."""
        return Recovery(epoch="e1", checkpoints=dict(self.checkpoints), rows=tuple(self.rows))


def told(verdicts: list[Verdict]) -> list[tuple[object, ...]]:
    """Everything of verdicts that must not depend on a stop, bit for bit."""
    return [
        (
            v.id,
            v.stream,
            v.number,
            v.label,
            v.score.hex(),
            v.confidence.hex(),
            v.tier,
            v.model,
            v.release,
            v.time_s,
            v.window_from_s,
            v.stale_ms,
            v.reasons,
        )
        for v in verdicts
    ]
