"""What happened, in figures, and whether each promise held (pure)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from deploy.demo.accuracy import accuracy, events_found
from deploy.demo.observed import HUB, PUT_TO_THE_HUB, QUEUED, Observed, SeenVerdict

GRACE_MS: Final = 50.0
"""A final verdict later than its deadline by more than this is a missed one."""
LOCAL_P99_MS: Final = 50.0
LEAST_OUTAGE_S: Final = 5.0
MOST_SECONDS: Final = 90.0
LEAST_ACCURACY: Final = 0.925
MOST_FLAGGED: Final = 0.05
SETTLING_S: Final = 1.0
"""Answers that were on their way when the link was cut have arrived after this."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing that the product promises, and what was seen of it."""

    text: str
    seen: str
    held: bool


@dataclass(frozen=True, slots=True)
class Report:
    """The content of `demo-report.json`, and the promises behind its `ok`."""

    content: dict[str, Any]
    promises: tuple[Promise, ...]

    @property
    def ok(self) -> bool:
        """Whether every promise held."""
        return all(promise.held for promise in self.promises)

    @property
    def broken(self) -> list[Promise]:
        """The promises that did not hold."""
        return [promise for promise in self.promises if not promise.held]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99 by nearest rank; zeros where there is nothing."""
    ordered = sorted(values)
    if not ordered:
        return {"p50": 0.0, "p95": 0.0, "p99": 0.0}
    return {
        f"p{percent}": round(ordered[math.ceil(percent / 100 * len(ordered)) - 1], 3)
        for percent in (50, 95, 99)
    }


def make_report(run: Observed) -> Report:
    """The figures of a run and the promises they are held against."""
    verdicts = run.verdicts
    local = [verdict for verdict in verdicts if not verdict.waited]
    offline = [verdict for verdict in verdicts if run.outage.covers(verdict.at_s)]
    late = [verdict for verdict in verdicts if _late(verdict, run)]
    late_offline = [verdict for verdict in offline if _late(verdict, run)]
    flow = events_found(
        (verdict for verdict in verdicts if verdict.device == run.flow_device),
        times_s=run.truth.flow_times_s,
        events=run.truth.events,
    )
    right = accuracy(
        (verdict for verdict in verdicts if verdict.device == run.motion_device),
        run.truth.activities,
    )
    content: dict[str, Any] = {
        "readings": run.ledger.acknowledged,
        "verdicts": len(verdicts),
        "missed_deadlines": len(late),
        "by_tier": dict(Counter(verdict.tier for verdict in verdicts)),
        "escalations": sum(bool(PUT_TO_THE_HUB & set(each.reasons)) for each in verdicts),
        "latency_ms": percentiles([verdict.latency_ms for verdict in local]),
        "offline": {
            "seconds": round(run.outage.seconds, 1),
            "verdicts": len(offline),
            "missed": len(late_offline),
            "by_tier": dict(Counter(verdict.tier for verdict in offline)),
        },
        "ledger": asdict(run.ledger),
        "events": {
            "waterflow": {
                "found": flow.found,
                "of": flow.of,
                "normal_flagged_share": round(flow.normal_flagged_share, 4),
            }
        },
        "accuracy": {"motion": round(right, 4)},
        "by_reason": dict(Counter(reason for each in verdicts for reason in each.reasons)),
        "revisions": _revisions(run),
        "clocks": {
            "device_ms": percentiles([verdict.device_ms for verdict in local]),
            "wire_ms": percentiles([each.wire_ms for each in local if each.wire_ms is not None]),
        },
        "seconds": round(run.seconds, 1),
        "reconnected_s": run.reconnected_s,
    }
    promises = (*_answers(run, content), *_outage(run, offline, content), *_data(content))
    content["promises"] = [asdict(promise) for promise in promises]
    report = Report(content, promises)
    content["ok"] = report.ok
    return report


def _late(verdict: SeenVerdict, run: Observed) -> bool:
    return verdict.latency_ms > run.deadline_ms[verdict.device] + GRACE_MS


def _revisions(run: Observed) -> dict[str, int]:
    queued = {verdict.id for verdict in run.verdicts if QUEUED in verdict.reasons}
    revised = {revision.verdict for revision in run.revisions}
    return {
        "queued": len(queued),
        "revised": len(queued & revised),
        "disagreed": sum(revision.agrees is False for revision in run.revisions),
    }


def _answers(run: Observed, content: dict[str, Any]) -> tuple[Promise, ...]:
    given = Counter(verdict.device for verdict in run.verdicts)
    unique = len({verdict.id for verdict in run.verdicts})
    due = sum(run.due.values())
    latency, by_tier = content["latency_ms"], content["by_tier"]
    flow, right = content["events"]["waterflow"], content["accuracy"]["motion"]
    return (
        Promise(
            "every due window got exactly one verdict",
            f"{len(run.verdicts):,} verdicts on {due:,} windows",
            held=len(run.verdicts) == unique and dict(given) == run.due,
        ),
        Promise(
            f"no verdict later than its deadline + {GRACE_MS:g} ms",
            f"{content['missed_deadlines']} late",
            held=content["missed_deadlines"] == 0,
        ),
        Promise(
            f"99 % of local verdicts within {LOCAL_P99_MS:g} ms",
            f"p99 {latency['p99']:.1f} ms",
            held=0 < latency["p99"] < LOCAL_P99_MS,
        ),
        Promise(
            "uncertain windows were answered by the hub, in time",
            f"{by_tier.get(HUB, 0)} answers",
            held=by_tier.get(HUB, 0) > 0,
        ),
        Promise(
            "all events of the water flow were found",
            f"{flow['found']} of {flow['of']}",
            held=flow["found"] == flow["of"],
        ),
        Promise(
            f"at most {MOST_FLAGGED:.0%} of its normal windows were flagged",
            f"{flow['normal_flagged_share']:.1%}",
            held=flow["normal_flagged_share"] <= MOST_FLAGGED,
        ),
        Promise(
            f"at least {LEAST_ACCURACY:.1%} of the motions were recognised",
            f"{right:.1%}",
            held=right >= LEAST_ACCURACY,
        ),
    )


def _outage(
    run: Observed, offline: list[SeenVerdict], content: dict[str, Any]
) -> tuple[Promise, ...]:
    settled_s = run.outage.cut_s + SETTLING_S
    from_nowhere = sum(each.tier == HUB and each.at_s >= settled_s for each in offline)
    revisions = content["revisions"]
    return (
        Promise(
            f"the hub was away for at least {LEAST_OUTAGE_S:g} s",
            f"{run.outage.seconds:.1f} s",
            held=run.outage.seconds >= LEAST_OUTAGE_S,
        ),
        Promise(
            "verdicts went on meanwhile, from lower tiers",
            f"{len(offline):,} verdicts",
            held=len(offline) > 0 and from_nowhere == 0,
        ),
        Promise(
            "and none of them was late",
            f"{content['offline']['missed']} late",
            held=content["offline"]["missed"] == 0,
        ),
        Promise(
            "what was uncertain meanwhile was answered afterwards, as a revision",
            f"{revisions['revised']} of {revisions['queued']}",
            held=revisions["queued"] > 0 and revisions["revised"] == revisions["queued"],
        ),
    )


def _data(content: dict[str, Any]) -> tuple[Promise, ...]:
    ledger = content["ledger"]
    return (
        Promise(
            "the broker acknowledged every reading",
            f"{ledger['acknowledged']:,} of {ledger['sent']:,}",
            held=ledger["acknowledged"] == ledger["sent"] > 0,
        ),
        Promise(
            "no acknowledged reading was lost", f"{ledger['lost']} lost", held=ledger["lost"] == 0
        ),
        Promise(  # the demo's outboxes never fill, so there is no reason to give anything up
            "no device gave up a reading",
            f"{ledger['declared_gaps']} given up",
            held=ledger["declared_gaps"] == 0,
        ),
        Promise(
            "no reading was stored twice",
            f"{ledger['duplicate']} twice",
            held=ledger["duplicate"] == 0,
        ),
        Promise(
            "nothing was stored that no sensor sent",
            f"{ledger['phantom']} unknown",
            held=ledger["phantom"] == 0,
        ),
        Promise(
            f"all of it within {MOST_SECONDS:g} s",
            f"{content['seconds']:.0f} s",
            held=content["seconds"] <= MOST_SECONDS,
        ),
    )
