"""metrics.md: every metric of both sides, collected from the real collectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from cloud_hub.metrics import HubMetrics
from contract.status import Health
from docs.generator.markdown import code, document, table
from docs.generator.samples import BROKER, OUTBOX
from docs.generator.source import member_sentences
from edge_agent.observe import metrics as edge_metrics
from edge_agent.observe.export import AgentMetrics, Readouts
from edge_agent.observe.metrics import Counters, EscalationEnd, Stage
from edge_agent.types import LinkState

_INTRODUCTION = """
Both programs answer `GET /metrics` in the Prometheus text format (OpenMetrics where the client asks for it): the device at
`http://127.0.0.1:9464`, the hub at `http://127.0.0.1:9465` (`[http]` in the configuration). Counters begin at zero with each start. Labels are closed
lists, brokers of the configuration, or installed models: their number does not grow with what arrives.
"""


def page() -> str:
    """The page."""
    return document(
        "Metrics",
        _INTRODUCTION,
        "## edge-agent",
        _table(_device()),
        "`reason`, `fault`, `tier` and `lane` are the lists in [reasons and faults](reasons-and-faults.md).",
        "### Stages",
        "Labels of `edge_agent_stage_seconds`, in the order in which a message meets them.",
        _members(Stage, "Stage"),
        "### Ends of an escalation",
        "Labels of `edge_agent_escalations_total`.",
        _members(EscalationEnd, "EscalationEnd"),
        "## cloud-hub",
        _table(_hub()),
    )


Row = tuple[str, str, str, str]


def _table(rows: Iterable[Row]) -> str:
    return table(("metric", "type", "labels", "meaning"), rows)


def _device() -> Iterator[Row]:
    counters = Counters()
    for stage in Stage:
        counters.observe_stage(stage, [1.0])
    readouts = Readouts(
        brokers=lambda: [BROKER],
        outbox=lambda: OUTBOX,
        link=lambda: LinkState(Health.ONLINE, rtt_ms=1.0, since_s=0.0),
    )
    for metric in AgentMetrics(counters, readouts).collect():
        labels = (
            [name for name in metric.samples[0].labels if name != "le"] if metric.samples else []
        )
        yield _row(metric, metric.name, labels)


def _hub() -> Iterator[Row]:
    for metric in vars(HubMetrics()).values():
        if isinstance(metric, MetricWrapperBase):
            described = next(iter(metric.describe()))
            yield _row(described, described.name, list(metric._labelnames))


def _row(metric: Metric, name: str, labels: list[str]) -> Row:
    shown = f"{name}_total" if metric.type == "counter" else name
    return code(shown), metric.type, ", ".join(map(code, labels)), metric.documentation


_STAGES = {
    "DECODE": "Payloads to readings.",
    "VALIDATE": "Times and ranges.",
    "WINDOW": "Into the ring buffers; due windows out.",
    "INFERENCE": "Features, model, baseline and rules.",
    "DECISION": "Whether the hub is asked, and the verdict.",
}


def _members(kind: type[Stage | EscalationEnd], name: str) -> str:
    written = member_sentences(edge_metrics, name)
    sentences = {member: text or _STAGES[member] for member, text in written.items()}
    return table(("label", "meaning"), [(code(member), sentences[member.name]) for member in kind])
