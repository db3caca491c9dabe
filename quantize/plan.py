"""What a recipe hands to the workshop: data, training and the bar to clear. The workshop does the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from contract.features import FeatureSpec
from contract.manifest import ChannelNeed, Resources
from contract.scoring import Judgement

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

Layers = tuple[tuple[F32, F32], ...]
"""Dense layers in order, each (weights f32 [inputs, outputs], bias f32 [outputs]); ReLU between them."""


@dataclass(frozen=True, slots=True)
class Windows:
    """B windows f64 [B, N, C] at row times f64 [B, N]; `labels` i64 [B] where the data has them."""

    values: F64
    times: F64
    labels: I64 | None = None


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained network and the inputs f32 [M, F] that show the range it was trained on.

    The range bounds the INT8 input and, by a Clip in the graph, the float input as well: neither form
    extrapolates where nothing was learnt.
    """

    layers: Layers
    representative: F32


@dataclass(frozen=True, slots=True)
class VariantPlan:
    """One variant to build; `train` is called with features f32 [B, F] and labels and must be deterministic."""

    name: str
    role: Literal["device", "hub"]
    precision: Literal["int8", "float32"]
    train: Callable[[F32, I64 | None], Trained]
    resources: Resources
    batch_buckets: tuple[int, ...] = (1, 8, 64)


@dataclass(frozen=True, slots=True)
class Gate:
    """A figure of the report that must not pass a bound, or nothing is packed."""

    figure: str
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class FamilyPlan:
    """One release of one family, before it is built.

    `train` feeds training, INT8 ranges, calibration and threshold, and nothing else does; `evaluation` is
    scored afterwards and turned into named figures by `evaluate`, which sees labels, scores and confidence
    of all its windows. The anomaly threshold is `threshold_margin` times the highest score of a training
    window under the variant itself.
    """

    family: str
    release: int
    version: str
    created: str
    kind: Literal["anomaly", "classification"]
    labels: tuple[str, ...]
    features: FeatureSpec
    channels: tuple[ChannelNeed, ...]
    period_s: float
    data: str
    train: Windows
    evaluation: Windows
    evaluate: Callable[[Judgement], dict[str, float]]
    variants: tuple[VariantPlan, ...]
    gates: tuple[Gate, ...]
    golden_rows: tuple[int, ...]
    minimum_agent: str = "0.1.0"
    threshold_margin: float = 1.25
    folds: int = 5
