"""A made-up run of the demo in which every promise holds; tests change one thing of it."""

from dataclasses import replace
from typing import Any

from deploy.demo.ledger import Ledger
from deploy.demo.observed import Observed, Outage, SeenRevision, SeenVerdict
from deploy.demo.recordings import Truth

TRUTH = Truth(
    flow_times_s=tuple(1e9 + 3600.0 * row for row in range(60)),
    events=((20, 22), (40, 40)),
    activities={"r00": "walking", "r01": "running"},
)
OUTAGE = Outage(cut_s=100.0, killed_s=101.0, back_s=108.0)


def verdict(number: int, **changes: Any) -> SeenVerdict:
    seen = SeenVerdict(
        id=f"v{number}",
        device="boilers",
        stream="boiler/1",
        time_ms=number,
        label="normal",
        tier="baseline",
        reasons=("no_model",),
        waited=False,
        device_ms=0.5,
        wire_ms=1.5,
        at_s=50.0,
    )
    return replace(seen, **changes)


def flow_verdicts() -> list[SeenVerdict]:
    return [
        verdict(
            1000 + row,
            device="pump",
            stream="flow",
            time_ms=round(TRUTH.flow_times_s[row] * 1e3),
            label="anomaly" if row in {21, 22, 40, 41} else "normal",
            tier="model",
            reasons=("confident",),
        )
        for row in range(11, 60)
    ]


def motion_verdicts() -> list[SeenVerdict]:
    return [
        verdict(
            2000 + index,
            device="workshop",
            stream=f"motion/{name}",
            label=activity,
            tier="hub",
            reasons=("uncertain", "hub_answered"),
            waited=True,
            device_ms=20.0,
        )
        for index, (name, activity) in enumerate(TRUTH.activities.items())
    ]


def offline_verdicts() -> list[SeenVerdict]:
    queued = verdict(
        3000,
        tier="model",
        reasons=("uncertain", "hub_offline", "bulk_escalated"),
        at_s=104.0,
    )
    return [queued, verdict(3001, at_s=105.0)]


def good_run(**changes: Any) -> Observed:
    verdicts = [*flow_verdicts(), *motion_verdicts(), *offline_verdicts()]
    run = Observed(
        verdicts=verdicts,
        revisions=[SeenRevision("v3000", "normal", agrees=True)],
        due={"pump": 49, "workshop": 2, "boilers": 2},
        deadline_ms={"pump": 250.0, "workshop": 250.0, "boilers": 250.0},
        outage=OUTAGE,
        ledger=Ledger(100, 100, 100, 0, 0, 0, 0),
        truth=TRUTH,
        flow_device="pump",
        motion_device="workshop",
        seconds=50.0,
    )
    return replace(run, **changes)


def run_with(number: int, **changes: Any) -> Observed:
    """The good run with one verdict changed."""
    run = good_run()
    verdicts = [
        replace(each, **changes) if each.id == f"v{number}" else each for each in run.verdicts
    ]
    return replace(run, verdicts=verdicts)
