"""Fits what turns outputs into honest answers: temperatures, quantiles and thresholds, on the very variant."""

from __future__ import annotations

from typing import Final

import numpy as np

from contract.calibration import Quantiles, Temperature, probabilities
from quantize.plan import F64, I64

MAX_TEMPERATURE: Final = 20.0
KNOT_TAILS: Final = (0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def fit_temperature(logits: F64, labels: I64) -> Temperature:
    """Returns the temperature from 1 to 20 with the least negative log likelihood on held-out logits [B, K].

    Below 1 is never used: a few dozen recordings without an error are no evidence for more confidence than
    the network has of itself. Ternary search; the likelihood has one minimum in t.
    """
    low, high = 0.0, float(np.log(MAX_TEMPERATURE))
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if _loss(float(np.exp(left)), logits, labels) <= _loss(
            float(np.exp(right)), logits, labels
        ):
            high = right
        else:
            low = left
    return Temperature(t=round(float(np.exp((low + high) / 2)), 4))


def fit_quantiles(scores: F64) -> Quantiles:
    """Returns how rare a score is, from the scores f64 [B] of normal windows under the variant itself.

    Knots stop where B windows stop being evidence (one in B + 1). Beyond, rarity goes on along the chord
    from the median to the highest knot: steeper than that nothing is known.
    """
    ordered = np.sort(scores)
    tails = [tail for tail in KNOT_TAILS if tail > 1.5 / (len(ordered) + 1)]
    knots = [(float(np.quantile(ordered, 1 - tail)), tail) for tail in tails]
    knots = [(float(ordered[0]), 1.0), *knots, (float(ordered[-1]), 1 / (len(ordered) + 1))]
    rising = [knots[0]]
    for score, tail in knots[1:]:
        if score > rising[-1][0]:
            rising.append((score, tail))
    median, highest = float(np.quantile(ordered, 0.5)), rising[-1]
    decades = float(np.log10(0.5 / highest[1]))
    return Quantiles(
        scores=tuple(score for score, _ in rising),
        tails=tuple(tail for _, tail in rising),
        decades_per_unit=decades / (highest[0] - median),
    )


def fit_threshold(scores: F64, *, margin: float) -> float:
    """Returns `margin` times the highest score of a normal window under the variant itself."""
    return float(np.max(scores)) * margin


def _loss(t: float, logits: F64, labels: I64) -> float:
    share = probabilities(Temperature(t=t), logits)[np.arange(len(labels)), labels]
    return float(-np.mean(np.log(np.maximum(share, 1e-12))))
