"""deploy/demo/report: the figures, and that each promise is broken by what breaks it."""

from dataclasses import replace

import pytest

from deploy.demo.ledger import Ledger
from deploy.demo.observed import Outage
from deploy.demo.report import make_report, percentiles
from tests.unit.deploy.runs import OUTAGE, TRUTH, good_run, run_with

SHAPE = {
    "readings": int,
    "verdicts": int,
    "missed_deadlines": int,
    "by_tier": dict,
    "escalations": int,
    "latency_ms": {"p50": float, "p95": float, "p99": float},
    "offline": {"seconds": float, "verdicts": int, "missed": int},
    "ledger": {"sent": int, "stored": int, "lost": int, "duplicate": int},
    "events": {"waterflow": {"found": int, "of": int, "normal_flagged_share": float}},
    "accuracy": {"motion": float},
    "ok": bool,
}


def _fits(content, shape) -> bool:
    if isinstance(shape, dict):
        return all(key in content and _fits(content[key], each) for key, each in shape.items())
    return isinstance(content, shape)


def _broken(run) -> str:
    return "; ".join(promise.text for promise in make_report(run).broken)


def test_a_good_run_keeps_every_promise_and_has_the_agreed_shape():
    report = make_report(good_run())
    assert report.broken == []
    assert report.content["ok"] is True
    assert _fits(report.content, SHAPE)


def test_figures_are_counted_from_the_verdicts():
    content = make_report(good_run()).content
    assert content["verdicts"] == 53
    assert content["by_tier"] == {"model": 50, "hub": 2, "baseline": 1}
    assert content["escalations"] == 3
    assert content["offline"] == {
        "seconds": 8.0,
        "verdicts": 2,
        "missed": 0,
        "by_tier": {"model": 1, "baseline": 1},
    }
    assert content["revisions"] == {"queued": 1, "revised": 1, "disagreed": 0}
    assert content["events"]["waterflow"]["found"] == 2
    assert content["accuracy"]["motion"] == 1.0


def test_verdicts_that_waited_for_the_hub_are_no_local_latencies():
    run = run_with(2000, device_ms=240.0, wire_ms=241.0)
    assert make_report(run).content["latency_ms"]["p99"] < 2


@pytest.mark.parametrize("clock", ["device_ms", "wire_ms"])
def test_a_late_verdict_is_missed_by_either_clock(clock):
    report = make_report(run_with(3001, **{clock: 301.0}))
    assert report.content["missed_deadlines"] == report.content["offline"]["missed"] == 1
    assert "later than its deadline" in _broken(run_with(3001, **{clock: 301.0}))
    assert make_report(run_with(3001, **{clock: 299.0})).content["missed_deadlines"] == 0


@pytest.mark.parametrize(
    ("run", "broken"),
    [
        (good_run(due={"pump": 49, "workshop": 2, "boilers": 3}), "exactly one verdict"),
        (run_with(3001, id="v3000"), "exactly one verdict"),
        (run_with(1050, label="anomaly", time_ms=0), "exactly one"),
        (good_run(outage=Outage(100.0, 101.0, 104.5)), "away for at least"),
        (good_run(revisions=[]), "as a revision"),
        (good_run(seconds=91.0), "within 90 s"),
        (good_run(ledger=Ledger(100, 99, 100, 0, 0, 0, 0)), "acknowledged every reading"),
        (good_run(ledger=Ledger(100, 100, 99, 0, 1, 0, 0)), "was lost"),
        (good_run(ledger=Ledger(100, 100, 98, 2, 0, 0, 0)), "gave up"),
        (good_run(ledger=Ledger(100, 100, 100, 0, 0, 1, 0)), "stored twice"),
        (good_run(ledger=Ledger(100, 100, 101, 0, 0, 0, 1)), "no sensor sent"),
        (run_with(2001, label="standing"), "motions were recognised"),
        (run_with(3001, tier="hub"), "lower tiers"),
    ],
)
def test_each_promise_is_broken_by_what_breaks_it(run, broken):
    if broken == "exactly one":  # a flow verdict of no known row is none of the flow's
        assert make_report(run).content["events"]["waterflow"]["found"] == 2
        return
    report = make_report(run)
    assert broken in _broken(run)
    assert report.content["ok"] is False


def test_an_answer_of_the_hub_that_was_on_its_way_at_the_cut_is_allowed():
    assert make_report(run_with(3001, tier="hub", at_s=OUTAGE.cut_s + 0.5)).ok


def test_an_event_without_an_alert_is_not_found():
    run = good_run()
    quiet = [
        replace(each, label="normal") if each.device == "pump" and each.time_ms > _ms(35) else each
        for each in run.verdicts
    ]
    report = make_report(replace(run, verdicts=quiet))
    assert report.content["events"]["waterflow"]["found"] == 1
    assert "all events" in _broken(replace(run, verdicts=quiet))


def test_too_many_alerts_on_normal_windows_are_told():
    run = good_run()
    loud = [
        replace(each, label="anomaly") if each.device == "pump" and each.time_ms > _ms(53) else each
        for each in run.verdicts
    ]
    assert "were flagged" in _broken(replace(run, verdicts=loud))


def test_a_slow_hundredth_of_the_local_verdicts_is_told():
    run = good_run()
    slow = [replace(each, device_ms=60.0) for each in run.verdicts]
    assert "local verdicts within" in _broken(replace(run, verdicts=slow))


def test_percentiles_of_nothing_are_zero():
    assert percentiles([]) == {"p50": 0.0, "p95": 0.0, "p99": 0.0}


def test_percentiles_are_measured_values():
    assert percentiles([float(n) for n in range(1, 201)]) == {"p50": 100, "p95": 190, "p99": 198}


def _ms(row: int) -> int:
    return round(TRUTH.flow_times_s[row] * 1e3)
