import pytest

from contract.encoding import decode
from contract.messages import LATENCY_GROWTH, Rollup
from contract.status import Fault, Lane, Reason, RowClass, Tier
from edge_agent.observe.rollups import Rollups
from edge_agent.types import FaultNote, Verdict


def verdict(
    stream: str = "pump", label: str = "normal", tier: Tier = Tier.MODEL, score: float = 0.5
):
    return Verdict(
        id="x",
        stream=stream,
        time_s=1.0,
        label=label,
        score=score,
        confidence=0.9,
        tier=tier,
        model="m",
        release=1,
        stale_ms=0.0,
        reasons=(Reason.CONFIDENT,),
        stages_ms={},
        number=1,
        window_from_s=0.0,
    )


def flushed(rollups: Rollups, now_s: float = 160.0) -> list[Rollup]:
    rows = rollups.flush(now_s)
    assert all(row.kind is RowClass.ROLLUP and row.kind.lane is Lane.TEL for row in rows)
    return [decode(row.body, Rollup) for row in rows]


def test_an_interval_counts_by_tier_label_and_fault_for_each_stream():
    rollups = Rollups(interval_s=60, now_s=100)
    rollups.verdict(verdict(), 1.0)
    rollups.verdict(verdict(label="anomaly", score=3.0), 2.0)
    rollups.verdict(verdict(tier=Tier.BASELINE), 2.0)
    rollups.verdict(verdict("other"), 1.0)
    rollups.fault(FaultNote(Fault.OUT_OF_RANGE, 5, "t", "pump", "", b""))
    rollups.fault(FaultNote(Fault.OUT_OF_RANGE, 2, "t", "pump", "", b""))
    pump, other = flushed(rollups)
    assert (pump.stream, pump.from_s, pump.to_s, pump.verdicts) == ("pump", 100, 160, 3)
    assert pump.by_tier == {"model": 2, "baseline": 1}
    assert pump.by_label == {"normal": 2, "anomaly": 1}
    assert pump.faults == {"out_of_range": 7}
    assert pump.score_max == 3.0
    assert sum(pump.latency_buckets.values()) == 3
    assert (other.stream, other.verdicts) == ("other", 1)


def test_the_next_interval_begins_where_the_last_ended_and_is_empty():
    rollups = Rollups(interval_s=60, now_s=100)
    rollups.verdict(verdict(), 1.0)
    flushed(rollups, 160.0)
    assert flushed(rollups, 220.0) == []
    rollups.verdict(verdict(), 1.0)
    (again,) = flushed(rollups, 280.0)
    assert (again.from_s, again.to_s, again.verdicts) == (220.0, 280.0, 1)


def test_a_fault_of_no_stream_is_not_counted_here():
    rollups = Rollups(interval_s=60, now_s=100)
    rollups.fault(FaultNote(Fault.NO_STREAM, 5, "t", "", "", b""))
    assert flushed(rollups) == []


def test_it_is_due_when_the_interval_is_over_or_the_clock_jumped_back():
    rollups = Rollups(interval_s=60, now_s=100)
    assert not rollups.due(100)
    assert not rollups.due(159.9)
    assert rollups.due(160)
    assert rollups.due(99)


@pytest.mark.parametrize("ms", [0.01, 0.5, 1.0, 3.7, 250.0, 60000.0])
def test_a_latency_lies_within_its_bucket(ms):
    rollups = Rollups(interval_s=60, now_s=100)
    rollups.verdict(verdict(), ms)
    ((bucket, count),) = flushed(rollups)[0].latency_buckets.items()
    assert count == 1
    assert LATENCY_GROWTH ** (bucket - 1) * 0.999999 <= ms <= LATENCY_GROWTH**bucket * 1.000001


def test_a_latency_of_nothing_or_less_is_counted_too():
    rollups = Rollups(interval_s=60, now_s=100)
    for ms in (0.0, -5.0):
        rollups.verdict(verdict(), ms)
    assert sum(flushed(rollups)[0].latency_buckets.values()) == 2
