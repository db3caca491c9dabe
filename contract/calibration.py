"""How sure an answer is: a closed list of calibrations, fitted in the workshop, evaluated here.

All evaluation is vectorised and row by row: the confidence of a row does not depend on its batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


class Temperature(msgspec.Struct, frozen=True, tag_field="kind", tag="temperature"):
    """For a classifier: softmax(logits / t) is honest; t > 1 softens an over-confident model."""

    t: float


class Quantiles(msgspec.Struct, frozen=True, tag_field="kind", tag="quantiles"):
    """For an anomaly score: how rare a score is among normal windows.

    `tails[i]` is the share of normal windows whose score is above `scores[i]`; scores rise, tails fall.
    Above the last knot the tail falls by `decades_per_unit` powers of ten per unit of score.
    """

    scores: tuple[float, ...]
    tails: tuple[float, ...]
    decades_per_unit: float


Calibration = Temperature | Quantiles
"""Every calibration there is; on the wire the field `kind` tells which."""


def calibration_problems(calibration: Calibration) -> Iterator[str]:
    """Yields what makes the calibration unusable, in words."""
    if isinstance(calibration, Temperature):
        if not (math.isfinite(calibration.t) and calibration.t > 0):
            yield f"temperature must be positive and finite, is {calibration.t}"
        return
    scores, tails = calibration.scores, calibration.tails
    if len(scores) < 2 or len(scores) != len(tails):
        yield f"needs at least two knots and one tail each, has {len(scores)} and {len(tails)}"
    if not all(map(math.isfinite, (*scores, *tails))):
        yield "knots hold finite numbers only"
    if any(a >= b for a, b in pairwise(scores)):
        yield "scores must rise"
    if any(a <= b for a, b in pairwise(tails)):
        yield "tails must fall"
    if any(not 0 < tail <= 1 for tail in tails):
        yield "tails lie above 0 and at most at 1"
    slope = calibration.decades_per_unit
    if not (math.isfinite(slope) and slope > 0):
        yield f"decades_per_unit must be positive and finite, is {slope}"


def probabilities(calibration: Temperature, logits: NDArray[Any]) -> F64:
    """Returns softmax(logits / t), f64 [B, K], each row summing to 1."""
    x = np.asarray(logits, dtype=np.float64) / calibration.t
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return np.asarray(e / np.sum(e, axis=1, keepdims=True), dtype=np.float64)


def rarity(calibration: Quantiles, scores: F64) -> F64:
    """Returns how rare each score is among normal windows, f64 [B]: 2.0 means one normal window in a hundred."""
    knots = np.asarray(calibration.scores, dtype=np.float64)
    decades = -np.log10(np.asarray(calibration.tails, dtype=np.float64))
    beyond = np.maximum(scores - knots[-1], 0.0) * calibration.decades_per_unit
    return np.asarray(np.interp(scores, knots, decades) + beyond, dtype=np.float64)


def anomaly_confidence(calibration: Quantiles, scores: F64, *, threshold: float) -> F64:
    """Returns how sure the label is, f64 [B], from 0.5 at the threshold towards 1 on either side.

    The threshold is, by its choice, the score at which both labels are equally good: odds 1. What is known
    besides is how often a *normal* window exceeds a score, its tail probability. A score whose tail is ten
    times smaller than the threshold's is ten times harder to explain as normal, so the odds that it is an
    anomaly are 10; a score whose tail is ten times larger has odds 10 of being normal. With r the rarity in
    decades, the confidence is therefore odds / (1 + odds) with odds = 10 ** |r(score) - r(threshold)|: one
    decade away 0.91, two decades 0.99. Windows near the threshold are the least certain, and they are the
    ones worth asking the hub about. No claim is made about how common anomalies are: a device cannot know.
    """
    distance = np.abs(
        rarity(calibration, scores) - rarity(calibration, np.asarray([threshold], dtype=np.float64))
    )
    return np.asarray(1.0 / (1.0 + np.power(10.0, -distance)), dtype=np.float64)
