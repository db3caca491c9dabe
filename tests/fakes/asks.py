"""Asks as the pipeline makes them, and a record of what becomes of them."""

import time

import numpy as np

from contract.messages import Revision
from contract.status import Reason, Tier
from edge_agent.agent.asking import Asker
from edge_agent.pipeline.outcome import Ask
from edge_agent.types import NewRow, Verdict
from tests.fakes.clocks import RunningClock
from tests.fakes.hubs import HubTwin


def local_verdict(number: int = 1, stream: str = "pump/a") -> Verdict:
    """A local answer that waits for the hub."""
    return Verdict(
        id=f"{stream}-{number}",
        stream=stream,
        time_s=1.0,
        label="local",
        score=1.0,
        confidence=0.5,
        tier=Tier.MODEL,
        model="tiny",
        release=7,
        stale_ms=0.0,
        reasons=(Reason.UNCERTAIN,),
        stages_ms={"decode": 0.1},
        number=number,
        window_from_s=0.0,
    )


def ask_of(*numbers: int, wait_s: float = 0.03) -> Ask:
    """Windows of the family `tiny`, to be answered within `wait_s`."""
    return Ask(
        family="tiny",
        release=7,
        feature_digest="d" * 64,
        labels=("a", "b", "hub"),
        features=np.array([[n, n] for n in numbers], dtype=np.float32),
        verdicts=[local_verdict(n) for n in numbers],
        deadlines_ns=[time.monotonic_ns() + round(wait_s * 1e9)] * len(numbers),
    )


class Record:
    """Everything that an Asker gave out, in order."""

    def __init__(self) -> None:
        self.final: list[Verdict] = []
        self.rows: list[NewRow] = []
        self.revisions: list[Revision] = []
        self.steps: list[str] = []

    def settle(self, verdicts: list[Verdict], rows: list[NewRow]) -> None:
        self.final += verdicts
        self.rows += rows
        self.steps.append("settle")

    def revise(self, revisions: list[Revision], ask: Ask) -> None:
        assert [v.id for v in ask.verdicts] == [r.verdict for r in revisions]
        self.revisions += revisions
        self.steps.append("revise")

    def asker(self, hub: HubTwin, *, late_s: float = 0.1, queue: bool = True) -> Asker:
        """An Asker that reports here; call it inside the event loop."""
        return Asker(
            hub,
            clock=RunningClock(),
            late_s=late_s,
            queue_unanswered=queue,
            settle=self.settle,
            revise=self.revise,
        )
