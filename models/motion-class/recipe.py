"""Tells four activities from ten seconds of a wrist's motion: statistics per axis and a small network."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from contract.features import FeatureSpec, Statistics, compile_features
from contract.manifest import ChannelNeed, Resources
from contract.scoring import Judgement
from quantize.datasets import MOTION_CHANNELS, MOTION_LABELS, MOTION_PERIOD_S, motion
from quantize.graph import layers_of
from quantize.plan import F32, I64, FamilyPlan, Gate, Trained, VariantPlan, Windows

STATISTICS = ("mean", "std", "min", "max", "iqr", "rms", "abs_diff_mean")
SEED = 0


def plan() -> FamilyPlan:
    """Returns the plan of this release."""
    train, test = _windows("train"), _windows("test")
    return FamilyPlan(
        family="motion-class",
        release=1,
        version="1.0",
        created="2026-12-01T00:00:00Z",
        kind="classification",
        labels=MOTION_LABELS,
        features=_features(train),
        channels=tuple(
            ChannelNeed(
                name=name,
                unit="",  # the data set does not say
                low=float(train.values[:, :, axis].min()),
                high=float(train.values[:, :, axis].max()),
            )
            for axis, name in enumerate(MOTION_CHANNELS)
        ),
        period_s=MOTION_PERIOD_S,
        data="sktime BasicMotions, training split",
        train=train,
        evaluation=test,
        evaluate=lambda judgement: _evaluate(judgement, test.labels),
        variants=(
            VariantPlan(
                name="device-int8",
                role="device",
                precision="int8",
                train=_classifier((16,)),
                resources=Resources(max_p95_ms=5.0, ram_mb=8.0),
            ),
            VariantPlan(
                name="hub-float32",
                role="hub",
                precision="float32",
                train=_classifier((128, 64)),
                resources=Resources(max_p95_ms=20.0, ram_mb=32.0),
            ),
        ),
        gates=(
            Gate("device-int8.accuracy", at_least=0.925),
            Gate("device-int8.label_agreement", at_least=0.95),
            Gate("hub-float32.accuracy", at_least=0.925),
        ),
        golden_rows=tuple(range(0, 40, 3)),
    )


def _windows(split: str) -> Windows:
    values, labels = motion("train" if split == "train" else "test")
    return Windows(
        values=values,
        times=np.tile(np.arange(values.shape[1]) * MOTION_PERIOD_S, (len(values), 1)),
        labels=np.asarray([MOTION_LABELS.index(label) for label in labels], dtype=np.int64),
    )


def _features(train: Windows) -> FeatureSpec:
    bare = FeatureSpec(
        channels=MOTION_CHANNELS, window=100, hop=100, steps=(Statistics(of=STATISTICS),)
    )
    raw = compile_features(bare)(train.values, train.times).astype(np.float64)
    return FeatureSpec(
        channels=bare.channels,
        window=bare.window,
        hop=bare.hop,
        steps=bare.steps,
        centre=tuple(round(float(x), 6) for x in raw.mean(axis=0)),
        scale=tuple(round(float(x), 6) for x in raw.std(axis=0)),
    )


def _classifier(hidden: tuple[int, ...]) -> Callable[[F32, I64 | None], Trained]:
    def train(features: F32, labels: I64 | None) -> Trained:
        network = MLPClassifier(
            hidden_layer_sizes=hidden, alpha=1e-2, max_iter=600, random_state=SEED
        )
        with warnings.catch_warnings():
            # The number of passes is a budget, not a hope for convergence.
            warnings.simplefilter("ignore", ConvergenceWarning)
            network.fit(features, labels)
        return Trained(layers=layers_of(network), representative=features)

    return train


def _evaluate(judgement: Judgement, labels: I64 | None) -> dict[str, float]:
    assert labels is not None
    right = judgement.labels == labels
    return {
        "accuracy": float(np.mean(right)),
        "mean_confidence": float(np.mean(judgement.confidence)),
        "uncertain_share": float(np.mean(judgement.confidence < 0.8)),
        "wrong_and_certain_share": float(np.mean(~right & (judgement.confidence >= 0.8))),
    }
