"""The agent at a glance: for `status`, for the health topic, for `/livez` and `/readyz`, for the hub."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from contract.messages import InstalledModel, LaneReport, StateReport
from contract.status import Health
from edge_agent.agent.emitting import Emitter
from edge_agent.agent.ground import Keeping
from edge_agent.agent.ingest import Ingest
from edge_agent.inference.load import Loaded
from edge_agent.observe.broker_state import BrokerState
from edge_agent.observe.metrics import Counters
from edge_agent.pipeline.core import Pipeline
from edge_agent.settings import Settings
from edge_agent.types import Clock, JsonObject, LinkState, OutboxState

STREAMS_SHOWN = 20
MOST_DEGRADED = 16
_MOST_TEXT = 300


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
    stuck: Callable[[], str]
    replaced: tuple[str, ...]
    """What safe mode replaced, a sentence each."""
    keeping: Keeping
    config: Path | None
    inspect: Callable[[], Awaitable[JsonObject]] | None = None
    """Looks into the outbox; None where there is none."""


class Reporter:
    """Reads the parts when asked; holds nothing but the time of the start."""

    def __init__(self, parts: Parts) -> None:
        """The agent starts now."""
        self.parts = parts
        self._started_ns = parts.clock.mono_ns()

    def status(self) -> JsonObject:
        """Everything that `edge-agent status` shows."""
        parts = self.parts
        return {
            "device": parts.settings.device.name,
            "version": parts.version,
            "uptime_s": round(self._uptime_s(), 1),
            "config": None if parts.config is None else str(parts.config),
            "safe_mode": list(parts.replaced),
            "degraded": list(self.degraded()),
            "streams": parts.pipeline.registry.count,
            **parts.counters.snapshot(),
            "repeated": parts.ingest.repeated,
            "models": self._models(),
            "brokers": [asdict(each) for each in parts.brokers()],
            "hub": {"configured": bool(parts.settings.hub.urls), **asdict(parts.link())},
            "outbox": _outbox(parts.outbox()),
            "silent": self._silent(),
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
            "uptime_s": round(self._uptime_s()),
            "hub": str(parts.link().health) if parts.settings.hub.urls else "none",
            "streams": parts.pipeline.registry.count,
            "readings": snapshot["readings"],
            "verdicts": snapshot["verdicts"],
            "deadline_misses": snapshot["deadline_misses"],
            "outbox_bytes": outbox.bytes,
            "outbox_fault": outbox.fault,
            "degraded": list(self.degraded()),
            "faults": snapshot["faults"],
        }

    def live(self) -> tuple[bool, JsonObject]:
        """Whether the agent makes progress."""
        stuck = self.parts.stuck()
        undecided_s = self.parts.ingest.undecided_s
        return not stuck, {"oldest_undecided_s": round(undecided_s, 3), "stuck": stuck}

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

    def degraded(self) -> tuple[str, ...]:
        """What is not as it should be, a sentence each, at most sixteen; none when all is well."""
        parts = self.parts
        outbox = parts.outbox()
        found = [f"safe mode: {each}" for each in parts.replaced]
        found += [f"outbox: {outbox.fault}"] if outbox.fault else []
        left_out = parts.loaded.failures.items()
        found += [
            f"model {path}: {why}" for path, why in left_out if not why.startswith("safe mode")
        ]
        found += [f"model of {name}: {why}" for name, why in parts.pipeline.model_faults().items()]
        found += [
            f"broker {each.url}: {each.why}" for each in parts.brokers() if not each.connected
        ]
        return tuple(each[:_MOST_TEXT] for each in found[:MOST_DEGRADED])

    def sentence(self) -> str:
        """One sentence for people who ask systemd."""
        parts = self.parts
        if parts.replaced:
            return f"safe mode: {'; '.join(parts.replaced)}"
        if degraded := self.degraded():
            return f"degraded: {'; '.join(degraded)}"
        hub = f"hub {parts.link().health}" if parts.settings.hub.urls else "no hub configured"
        models = len(parts.loaded.scorers)
        return f"ready: {parts.pipeline.registry.count} streams, {models} models, {hub}"

    def state_report(self) -> StateReport:
        """The heartbeat to the hub."""
        parts = self.parts
        outbox = parts.outbox()
        lanes: dict[str, LaneReport] = {}
        if parts.keeping is Keeping.STORED:  # else the lanes lie in files that cannot be read
            lanes = {
                str(lane): LaneReport(outbox.epoch, each.next_seq, each.sent, each.first_kept)
                for lane, each in outbox.lanes.items()
            }
        return StateReport(
            agent=parts.version,
            clock=parts.clock.stamp(),
            lanes=lanes,
            models=tuple(
                InstalledModel(scorer.family, scorer.release, scorer.variant.name)
                for scorer in parts.loaded.scorers.values()
            ),
            streams=parts.pipeline.registry.count,
            readings=parts.counters.readings,
            verdicts=sum(parts.counters.verdicts.values()),
            revised_to=parts.revised_to(),
            degraded=self.degraded(),
        )

    def _uptime_s(self) -> float:
        return (self.parts.clock.mono_ns() - self._started_ns) / 1e9

    def _silent(self) -> JsonObject:
        """The streams that have been silent longest, and tables of which no message ever came."""
        pipeline, now_ns = self.parts.pipeline, self.parts.clock.mono_ns()
        ages = [
            (name, None if heard_ns == 0 else max(0.0, (now_ns - heard_ns) / 1e9))
            for name, heard_ns in pipeline.heard()
        ]
        ages.sort(key=lambda each: (each[1] is not None, -(each[1] or 0.0), each[0]))
        return {
            "streams": [
                {"stream": name, "age_s": None if age_s is None else round(age_s, 1)}
                for name, age_s in ages[:STREAMS_SHOWN]
            ],
            "tables": pipeline.unheard_tables()[:STREAMS_SHOWN],
        }

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
