"""What the demo saw from outside: values that the report is made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from deploy.demo.ledger import Ledger
from deploy.demo.recordings import Truth

HUB = "hub"
QUEUED = "bulk_escalated"
PUT_TO_THE_HUB = frozenset({"hub_answered", "hub_timeout", "hub_busy", "hub_refused", QUEUED})
"""A verdict with one of these reasons was put to the hub, now or for later."""


@dataclass(frozen=True, slots=True)
class SeenVerdict:
    """One final verdict as it came over MQTT.

    `device_ms` is the sum of its own stages: from the message's arrival at the agent to the
    verdict's handing over to MQTT. `wire_ms` is a bystander's: from seeing the reading on the
    broker to seeing the verdict there; None where the reading was not seen.
    """

    id: str
    device: str
    stream: str
    time_ms: int
    label: str
    tier: str
    reasons: tuple[str, ...]
    waited: bool
    """Whether it waited for the hub, with or without an answer."""
    device_ms: float
    wire_ms: float | None
    at_s: float
    """When the bystander saw it, monotonic."""

    @property
    def latency_ms(self) -> float:
        """The longer of the two clocks."""
        return self.device_ms if self.wire_ms is None else max(self.device_ms, self.wire_ms)


@dataclass(frozen=True, slots=True)
class SeenRevision:
    """One revision as it came over MQTT."""

    verdict: str
    label: str
    agrees: bool | None


@dataclass(frozen=True, slots=True)
class Outage:
    """When the link was cut, when the hub was killed, when both were back; monotonic seconds."""

    cut_s: float
    killed_s: float
    back_s: float

    @property
    def seconds(self) -> float:
        """From the cut until the hub could be reached again."""
        return self.back_s - self.cut_s

    def covers(self, at_s: float) -> bool:
        """Whether the hub was away at that time."""
        return self.cut_s <= at_s < self.back_s


@dataclass(frozen=True, slots=True)
class Observed:
    """A whole run."""

    verdicts: list[SeenVerdict]
    revisions: list[SeenRevision]
    due: dict[str, int]
    """By device: windows that the sensors' readings made due."""
    deadline_ms: dict[str, float]
    """By device."""
    outage: Outage
    ledger: Ledger
    truth: Truth
    flow_device: str
    motion_device: str
    seconds: float
    """From the start of the first server to the last comparison."""
    reconnected_s: dict[str, float] = field(default_factory=dict)
    """By device: how long after the hub was back it was seen to be online again."""
