"""The agent at a glance: for `status`, for the health topic, for `/livez` and `/readyz`, for the hub."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from contract.messages import InstalledModel, LaneReport, StateReport
from contract.status import Health
from edge_agent.agent.emitting import Emitter
from edge_agent.agent.ingest import Ingest
from edge_agent.inference.load import Loaded
from edge_agent.observe.broker_state import BrokerState
from edge_agent.observe.metrics import Counters
from edge_agent.pipeline.core import Pipeline
from edge_agent.settings import Settings
from edge_agent.types import Clock, JsonObject, LinkState, OutboxState

STUCK_S = 60.0
"""A batch in hand for longer means that the agent makes no progress."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What is reported on."""

    settings: Settings
    version: str
    clock: Clock
    pipeline: Pipeline
    ingest: Ingest
    emitter: Emitter
    counters: Counters
    loaded: Loaded
    brokers: Callable[[], Sequence[BrokerState]]
    outbox: Callable[[], OutboxState]
    link: Callable[[], LinkState]
    revised_to: Callable[[], int]


class Reporter:
    """Reads the parts when asked; holds nothing but the time of the start."""

    def __init__(self, parts: Parts) -> None:
        """The agent starts now."""
        self.parts = parts
        self._started = time.monotonic()

    def status(self) -> JsonObject:
        """Everything that `edge-agent status` shows."""
        parts = self.parts
        return {
            "device": parts.settings.device.name,
            "version": parts.version,
            "uptime_s": round(time.monotonic() - self._started, 1),
            "streams": parts.pipeline.registry.count,
            **parts.counters.snapshot(),
            "repeated": parts.ingest.repeated,
            "models": self._models(),
            "brokers": [asdict(each) for each in parts.brokers()],
            "hub": {"configured": bool(parts.settings.hub.urls), **asdict(parts.link())},
            "outbox": _outbox(parts.outbox()),
            "quarantine": parts.emitter.quarantine.sample(),
            "recent": parts.emitter.recent.latest(),
        }

    def health(self) -> JsonObject:
        """The short form that is published on MQTT."""
        parts = self.parts
        outbox = parts.outbox()
        snapshot = parts.counters.snapshot()
        return {
            "agent": parts.version,
            "uptime_s": round(time.monotonic() - self._started),
            "hub": str(parts.link().health) if parts.settings.hub.urls else "none",
            "streams": parts.pipeline.registry.count,
            "readings": snapshot["readings"],
            "verdicts": snapshot["verdicts"],
            "deadline_misses": snapshot["deadline_misses"],
            "outbox_bytes": outbox.bytes,
            "outbox_fault": outbox.fault,
            "faults": snapshot["faults"],
        }

    def live(self) -> tuple[bool, JsonObject]:
        """Whether the agent makes progress."""
        undecided_s = self.parts.ingest.undecided_s
        return undecided_s < STUCK_S, {"oldest_undecided_s": round(undecided_s, 3)}

    def ready(self) -> tuple[bool, JsonObject]:
        """Whether it can do its work: a broker is connected and the outbox can write."""
        brokers = self.parts.brokers()
        fault = self.parts.outbox().fault
        connected = all(broker.connected for broker in brokers)
        return connected and not fault, {
            "brokers": {broker.url: broker.why or "connected" for broker in brokers},
            "outbox": fault or "ok",
            "hub": str(self.parts.link().health),
        }

    def state_report(self) -> StateReport:
        """The heartbeat to the hub."""
        parts = self.parts
        outbox = parts.outbox()
        return StateReport(
            agent=parts.version,
            clock=parts.clock.stamp(),
            lanes={
                str(lane): LaneReport(outbox.epoch, each.next_seq, each.sent, each.first_kept)
                for lane, each in outbox.lanes.items()
            },
            models=tuple(
                InstalledModel(scorer.family, scorer.release, scorer.variant.name)
                for scorer in parts.loaded.scorers.values()
            ),
            streams=parts.pipeline.registry.count,
            readings=parts.counters.readings,
            verdicts=sum(parts.counters.verdicts.values()),
            revised_to=parts.revised_to(),
        )

    def _models(self) -> list[JsonObject]:
        loaded = self.parts.loaded
        faults = self.parts.pipeline.model_faults()
        models: list[JsonObject] = [
            {
                "family": scorer.family,
                "release": scorer.release,
                "version": scorer.manifest.version,
                "variant": scorer.variant.name,
                "fault": "",
            }
            for scorer in loaded.scorers.values()
        ]
        models += [{"package": path, "fault": why} for path, why in loaded.failures.items()]
        return models + [{"stream": stream, "fault": why} for stream, why in faults.items()]


def no_link() -> LinkState:
    """The link of a device that works alone."""
    return LinkState(Health.OFFLINE, rtt_ms=0.0, since_s=0.0, why="no [hub] is configured")


def _outbox(state: OutboxState) -> JsonObject:
    return {
        **{key: value for key, value in asdict(state).items() if key != "lanes"},
        "lanes": {str(lane): asdict(each) for lane, each in state.lanes.items()},
    }
