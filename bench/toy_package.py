"""An INT8 autoencoder of a plausible size for the benchmarks, built by the workshop in a second.

Its weights are random and its answers mean nothing; what it costs to run is what a trained one of
this size costs.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np

from bench.waves import CHANNELS, waves, windows
from contract.features import FeatureSpec, Values
from contract.manifest import ChannelNeed, Resources
from quantize.build import build
from quantize.package import write_package
from quantize.plan import F32, I64, FamilyPlan, Trained, VariantPlan, Windows

FAMILY = "bench-autoencoder"
WINDOW_ROWS = 32
HOP_ROWS = 8
_WIDTHS = (len(CHANNELS) * WINDOW_ROWS, 64, 16, 64, len(CHANNELS) * WINDOW_ROWS)


def build_toy_package(folder: Path) -> None:
    """Writes the package into a new folder."""
    built = build(_plan())
    folder.mkdir(parents=True)
    write_package(folder, manifest=built.manifest, blobs=built.blobs)


def _plan() -> FamilyPlan:
    table = waves()
    return FamilyPlan(
        family=FAMILY,
        release=1,
        version="1.0",
        created="2026-12-01T00:00:00Z",
        kind="anomaly",
        labels=("normal", "anomaly"),
        features=FeatureSpec(
            channels=CHANNELS, window=WINDOW_ROWS, hop=HOP_ROWS, steps=(Values(),)
        ),
        channels=tuple(
            ChannelNeed(name, "", float(column.min()), float(column.max()))
            for name, column in zip(CHANNELS, table.T, strict=True)
        ),
        period_s=1.0,
        data="made up",
        train=_windows(400),
        evaluation=_windows(50),
        evaluate=lambda judged: {"flagged": float(np.mean(judged.labels == 1))},
        variants=(
            VariantPlan(
                "device-int8", "device", "int8", _random, Resources(max_p95_ms=50.0, ram_mb=8.0)
            ),
        ),
        gates=(),
        golden_rows=tuple(range(10)),
    )


def _windows(count: int) -> Windows:
    values = windows(WINDOW_ROWS, count=count)
    return Windows(values=values, times=np.tile(np.arange(float(WINDOW_ROWS)), (count, 1)))


def _random(features: F32, _: I64 | None) -> Trained:
    rng = np.random.default_rng(3)
    layers = tuple(
        (
            (rng.normal(size=(a, b)) / np.sqrt(a)).astype(np.float32),
            np.zeros(b, dtype=np.float32),
        )
        for a, b in pairwise(_WIDTHS)
    )
    return Trained(layers=layers, representative=features)
