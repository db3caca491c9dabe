"""The agent's counters as Prometheus metrics, made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import psutil
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from contract.status import Health
from edge_agent.observe.broker_state import BrokerState
from edge_agent.observe.latency import LatencyBuckets
from edge_agent.observe.metrics import Counters
from edge_agent.types import LinkState, OutboxState

_LIMITS_MS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 5000)
_QUANTILES = (0.5, 0.95, 0.99)
_Label = TypeVar("_Label", bound=StrEnum)
_Read = Callable[[BrokerState], float]
_BROKER_GAUGES: tuple[tuple[str, str, _Read], ...] = (
    ("connected", "Whether the broker is connected.", lambda broker: broker.connected),
    ("waiting_messages", "Arrived, not taken up.", lambda broker: broker.waiting),
    ("paused", "Whether reading is stopped (back-pressure).", lambda broker: broker.paused),
)
_BROKER_COUNTS: tuple[tuple[str, str, _Read], ...] = (
    ("connections", "Connections made.", lambda broker: broker.connections),
    ("received", "Messages received.", lambda broker: broker.received),
    ("acknowledged", "Messages acknowledged.", lambda broker: broker.acknowledged),
    (
        "stale_acknowledgements",
        "Acknowledgements of an earlier connection, not sent.",
        lambda broker: broker.stale_acknowledgements,
    ),
    ("published", "Messages published.", lambda broker: broker.published),
    ("dropped", "Own messages dropped.", lambda broker: broker.dropped),
)


@dataclass(frozen=True, slots=True)
class Readouts:
    """Where the present state is read when metrics are asked for; all are called on the loop."""

    brokers: Callable[[], Sequence[BrokerState]] = tuple
    outbox: Callable[[], OutboxState | None] = lambda: None
    link: Callable[[], LinkState | None] = lambda: None
    streams: Callable[[], int] = lambda: 0
    oldest_undecided_s: Callable[[], float] = lambda: 0.0


class AgentMetrics(Collector):
    """Everything of `edge_agent_*`; `exposition` is what `/metrics` answers."""

    def __init__(self, counters: Counters, readouts: Readouts) -> None:
        self._counters = counters
        self._readouts = readouts
        self._process = psutil.Process()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing: the names are known only when they are collected."""
        return []

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics and their content type, in the format that the client accepts."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        """All metrics now."""
        yield from self._counts()
        yield from self._latencies()
        yield from _broker_metrics(self._readouts.brokers())
        outbox = self._readouts.outbox()
        if outbox is not None:
            yield from _outbox_metrics(outbox)
        link = self._readouts.link()
        if link is not None:
            yield from _link_metrics(link)
        yield _gauge("streams", "Streams known.", self._readouts.streams())
        yield _gauge(
            "oldest_undecided_seconds",
            "Age of the oldest message without a decision.",
            self._readouts.oldest_undecided_s(),
        )
        cpu = self._process.cpu_times()
        yield _counter("cpu_seconds", "CPU time of the process.", cpu.user + cpu.system)
        yield _gauge(
            "resident_memory_bytes", "Memory of the process.", self._process.memory_info().rss
        )

    def _counts(self) -> Iterator[Metric]:
        counters = self._counters
        yield _counter("messages", "MQTT messages taken up.", counters.messages)
        yield _counter("message_bytes", "Bytes of their payloads.", counters.message_bytes)
        yield _counter("readings", "Readings accepted.", counters.readings)
        yield _counter("deadline_misses", "Verdicts after the deadline.", counters.deadline_misses)
        yield _counter("alarms", "Alarms raised.", counters.alarms)
        yield _counter("escalated", "Windows sent to the hub or queued.", counters.escalated)
        yield _labelled("faults", "Not used or flagged, by reason.", "fault", counters.faults)
        yield _labelled("verdicts", "Verdicts by who answered.", "tier", counters.verdicts)
        yield _labelled("reasons", "Reasons of verdicts.", "reason", counters.reasons)
        yield _labelled("escalations", "Escalations that ended.", "end", counters.escalations)
        revisions = CounterMetricFamily(
            "edge_agent_revisions", "Revisions by revised tier.", labels=["tier", "agrees"]
        )
        for (tier, agrees), count in counters.revisions.items():
            revisions.add_metric([tier, str(agrees).lower()], count)
        yield revisions

    def _latencies(self) -> Iterator[Metric]:
        histogram = HistogramMetricFamily(
            "edge_agent_stage_seconds", "Time spent in each stage.", labels=["stage"]
        )
        quantiles = GaugeMetricFamily(
            "edge_agent_stage_quantile_seconds",
            "Percentiles of each stage since the start.",
            labels=["stage", "quantile"],
        )
        for stage, buckets in self._counters.stages.items():
            if not buckets.count:
                continue
            histogram.add_metric([stage], *_histogram(buckets))
            for share in _QUANTILES:
                quantiles.add_metric([stage, str(share)], buckets.quantile_ms(share) / 1e3)
        yield histogram
        yield quantiles
        lag = HistogramMetricFamily("edge_agent_loop_lag_seconds", "Lateness of the event loop.")
        lag.add_metric([], *_histogram(self._counters.loop_lag))
        yield lag


def _broker_metrics(brokers: Sequence[BrokerState]) -> Iterator[Metric]:
    for name, text, read in _BROKER_GAUGES:
        gauge = GaugeMetricFamily(f"edge_agent_broker_{name}", text, labels=["broker"])
        for broker in brokers:
            gauge.add_metric([broker.url], read(broker))
        yield gauge
    for name, text, read in _BROKER_COUNTS:
        counter = CounterMetricFamily(f"edge_agent_broker_{name}", text, labels=["broker"])
        for broker in brokers:
            counter.add_metric([broker.url], read(broker))
        yield counter


def _outbox_metrics(outbox: OutboxState) -> Iterator[Metric]:
    rows = GaugeMetricFamily("edge_agent_outbox_rows", "Rows kept.", labels=["lane"])
    readings = GaugeMetricFamily("edge_agent_outbox_readings", "Readings kept.", labels=["lane"])
    unapplied = GaugeMetricFamily(
        "edge_agent_outbox_unapplied_rows", "Rows the hub has not stored.", labels=["lane"]
    )
    for lane, state in outbox.lanes.items():
        rows.add_metric([lane], state.rows)
        readings.add_metric([lane], state.readings)
        unapplied.add_metric([lane], max(0, state.next_seq - 1 - state.applied))
    yield rows
    yield readings
    yield unapplied
    yield _gauge("outbox_bytes", "Bytes used.", outbox.bytes)
    yield _gauge("outbox_quota_bytes", "Bytes allowed.", outbox.quota_bytes)
    yield _gauge("outbox_fault", "1 while the outbox cannot write.", float(bool(outbox.fault)))
    yield _gauge("outbox_dead_letters", "Rows set aside.", outbox.dead_letters)
    yield _counter("outbox_commits", "Commits.", outbox.commits)
    shed = CounterMetricFamily("edge_agent_outbox_shed", "Given up, by class.", labels=["class"])
    for kind, count in outbox.shed.items():
        shed.add_metric([kind], count)
    yield shed


def _link_metrics(link: LinkState) -> Iterator[Metric]:
    state = GaugeMetricFamily("edge_agent_link_state", "1 for the present one.", labels=["state"])
    for health in Health:
        state.add_metric([health], float(link.health == health))
    yield state
    yield _gauge("link_rtt_seconds", "Smoothed round trip to the hub.", link.rtt_ms / 1e3)


def _histogram(buckets: LatencyBuckets) -> tuple[list[tuple[str, float]], float]:
    counted = buckets.up_to(_LIMITS_MS)
    limits = [(f"{limit / 1e3:g}", float(n)) for limit, n in zip(_LIMITS_MS, counted, strict=True)]
    return [*limits, ("+Inf", float(buckets.count))], buckets.sum_ms / 1e3


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"edge_agent_{name}", text, value=value)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"edge_agent_{name}", text, value=value)


def _labelled(name: str, text: str, label: str, counts: Mapping[_Label, int]) -> Metric:
    family = CounterMetricFamily(f"edge_agent_{name}", text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
