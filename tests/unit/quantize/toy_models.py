"""Small models and plans that build in a fraction of a second."""

from itertools import pairwise
from typing import Any, Literal

import numpy as np

from contract.features import FeatureSpec, Values
from contract.manifest import ChannelNeed, Resources
from quantize.graph import dense_graph
from quantize.plan import FamilyPlan, Gate, Layers, Trained, VariantPlan, Windows


def dense_layers(*widths: int, seed: int = 0) -> Layers:
    rng = np.random.default_rng(seed)
    return tuple(
        (
            rng.normal(size=(a, b)).astype(np.float32) / np.float32(np.sqrt(a)),
            rng.normal(size=b).astype(np.float32) * np.float32(0.1),
        )
        for a, b in pairwise(widths)
    )


def dense_model(*widths: int, bound: float = 4.0) -> bytes:
    limit = np.full(widths[0], bound, dtype=np.float32)
    graph = dense_graph(dense_layers(*widths), name="toy", output="out", low=-limit, high=limit)
    return bytes(graph.SerializeToString(deterministic=True))


def typical_rows(count: int, width: int) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(count, width)).astype(np.float32)


def windows(count: int, labels: bool = False) -> Windows:
    rng = np.random.default_rng(7)
    values = rng.normal(size=(count, 4, 1))
    classes = np.arange(count) % 2
    if labels:
        values = values + 6.0 * classes[:, None, None]
    return Windows(
        values=values,
        times=np.tile(np.arange(4.0), (count, 1)),
        labels=classes if labels else None,
    )


def mirror(features: np.ndarray, _: object) -> Trained:
    """An autoencoder that gives back half of what it sees, within the range it saw."""
    identity = np.eye(4, dtype=np.float32)
    both = np.concatenate((identity, -identity), axis=1)
    layers = ((both, np.zeros(8, np.float32)), (both.T * np.float32(0.5), np.zeros(4, np.float32)))
    return Trained(layers=layers, representative=features)


def centroid(features: np.ndarray, labels: np.ndarray) -> Trained:
    """A linear classifier by distance to each class's mean."""
    means = np.stack([features[labels == label].mean(axis=0) for label in (0, 1)])
    weights = (2.0 * means.T).astype(np.float32)
    bias = -np.sum(means * means, axis=1).astype(np.float32)
    return Trained(layers=((weights, bias),), representative=features)


def plan(
    kind: Literal["anomaly", "classification"] = "anomaly", gates: tuple[Gate, ...] = ()
) -> FamilyPlan:
    anomaly = kind == "anomaly"
    train: Any = mirror if anomaly else centroid
    cost = Resources(max_p95_ms=50.0, ram_mb=8.0)
    return FamilyPlan(
        family="toy",
        release=3,
        version="1.0",
        created="2026-12-01T00:00:00Z",
        kind=kind,
        labels=("normal", "anomaly") if anomaly else ("low", "high"),
        features=FeatureSpec(channels=("x",), window=4, hop=1, steps=(Values(),)),
        channels=(ChannelNeed("x", "V", -5.0, 5.0),),
        period_s=1.0,
        data="made up",
        train=windows(60, labels=not anomaly),
        evaluation=windows(30, labels=not anomaly),
        evaluate=lambda judged: {"flagged": float(np.mean(judged.labels == 1))},
        variants=(
            VariantPlan("device-int8", "device", "int8", train, cost),
            VariantPlan("hub-float32", "hub", "float32", train, cost),
        ),
        gates=gates,
        golden_rows=tuple(range(10)),
        folds=3,
    )
