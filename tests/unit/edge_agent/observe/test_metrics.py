from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from contract.status import Fault, Health, Lane, Reason, Tier
from edge_agent.observe.broker_state import BrokerState
from edge_agent.observe.export import AgentMetrics, Readouts
from edge_agent.observe.metrics import (
    MAX_STREAM_FAULTS,
    OTHER_STREAMS,
    Counters,
    EscalationEnd,
    Stage,
)
from edge_agent.outputs.examples import VERDICT
from edge_agent.types import LaneState, LinkState, OutboxState

BROKER = BrokerState(
    name="me@b:1",
    url="mqtt://b:1",
    connected=True,
    why="",
    since_s=1.0,
    connections=2,
    received=30,
    acknowledged=20,
    stale_acknowledgements=1,
    published=4,
    dropped=3,
    waiting=5,
    waiting_bytes=50,
    paused=False,
    refused_filters=(),
)
LANE = LaneState(
    next_seq=11, sent=8, applied=6, first_kept=7, rows=4, readings=400, bytes=999, oldest_s=1.0
)


def samples(metrics: AgentMetrics) -> dict[tuple[str, ...], float]:
    text = metrics.exposition()[0].decode()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_everything_counted_is_exported():
    counters = Counters()
    counters.count_messages(10, payload_bytes=1000)
    counters.count_readings(9)
    counters.count_fault(Fault.BAD_JSON, 2, stream="pump")
    late = replace(VERDICT, tier=Tier.HUB, reasons=(Reason.UNCERTAIN, Reason.HUB_ANSWERED))
    counters.count_verdicts([VERDICT, late], missed=1)
    counters.count_escalated(3)
    counters.end_escalation(EscalationEnd.ANSWERED, 2)
    counters.count_revision(Tier.MODEL, agrees=False)
    counters.observe_stage(Stage.EMIT, [0.2, 0.3])
    counters.loop_lag.add(3.0)
    got = samples(AgentMetrics(counters, Readouts()))
    assert got["edge_agent_messages_total",] == 10
    assert got["edge_agent_message_bytes_total",] == 1000
    assert got["edge_agent_readings_total",] == 9
    assert got["edge_agent_faults_total", "bad_json"] == 2
    assert got["edge_agent_faults_total", "too_deep"] == 0
    assert got["edge_agent_verdicts_total", "hub"] == 1
    assert got["edge_agent_verdicts_total", "model"] == 1
    assert got["edge_agent_reasons_total", "uncertain"] == 1
    assert got["edge_agent_deadline_misses_total",] == 1
    assert got["edge_agent_escalated_total",] == 3
    assert got["edge_agent_escalations_total", "answered"] == 2
    assert got["edge_agent_revisions_total", "false", "model"] == 1
    assert got["edge_agent_stage_seconds_count", "inference"] == 2
    assert got["edge_agent_stage_seconds_bucket", "0.001", "emit"] == 2
    assert got["edge_agent_stage_quantile_seconds", "0.99", "inference"] == pytest.approx(
        0.000118, rel=0.06
    )
    assert got["edge_agent_loop_lag_seconds_count",] == 1
    assert got["edge_agent_cpu_seconds_total",] > 0
    assert got["edge_agent_resident_memory_bytes",] > 1e6


def test_the_present_state_is_read_when_it_is_asked_for():
    outbox = OutboxState(
        epoch="e",
        lanes={Lane.TEL: LANE},
        bytes=4096,
        quota_bytes=8192,
        shed={"raw": 7},
        dead_letters=1,
        commits=12,
        fault="disk full",
    )
    readouts = Readouts(
        brokers=lambda: [BROKER],
        outbox=lambda: outbox,
        link=lambda: LinkState(Health.DEGRADED, 12.5, 0.0),
        streams=lambda: 42,
        oldest_undecided_s=lambda: 0.25,
    )
    got = samples(AgentMetrics(Counters(), readouts))
    assert got["edge_agent_broker_connected", "mqtt://b:1"] == 1
    assert got["edge_agent_broker_received_total", "mqtt://b:1"] == 30
    assert got["edge_agent_outbox_rows", "tel"] == 4
    assert got["edge_agent_outbox_unapplied_rows", "tel"] == 4
    assert got["edge_agent_outbox_fault",] == 1
    assert got["edge_agent_outbox_shed_total", "raw"] == 7
    assert got["edge_agent_link_state", "degraded"] == 1
    assert got["edge_agent_link_state", "online"] == 0
    assert got["edge_agent_link_rtt_seconds",] == 0.0125
    assert got["edge_agent_streams",] == 42
    assert got["edge_agent_oldest_undecided_seconds",] == 0.25


def test_openmetrics_is_spoken_to_those_who_ask():
    metrics = AgentMetrics(Counters(), Readouts())
    body, content_type = metrics.exposition("application/openmetrics-text; version=1.0.0")
    assert "openmetrics-text" in content_type
    assert body.endswith(b"# EOF\n")


def test_faults_per_stream_are_bounded():
    counters = Counters()
    for number in range(MAX_STREAM_FAULTS + 50):
        counters.count_fault(Fault.WRONG_TYPE, stream=f"s{number}")
    assert len(counters.stream_faults) == MAX_STREAM_FAULTS + 1
    assert counters.stream_faults[OTHER_STREAMS, Fault.WRONG_TYPE] == 50
    assert counters.faults[Fault.WRONG_TYPE] == MAX_STREAM_FAULTS + 50


def test_a_snapshot_leaves_out_what_did_not_happen():
    counters = Counters()
    counters.count_fault(Fault.MISSING, 3, stream="s")
    counters.count_verdicts([VERDICT])
    snapshot = counters.snapshot()
    assert snapshot["faults"] == {"missing": 3}
    assert snapshot["verdicts"] == {"model": 1}
    assert set(snapshot["stages_ms"]) == set(VERDICT.stages_ms)
    assert snapshot["revisions"] == {}
