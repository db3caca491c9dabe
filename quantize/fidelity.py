"""Compares a quantized model with its float twin, and decides whether a build is good enough to be packed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from contract.scoring import Judgement
from quantize.plan import F32, Gate


def agreement(reference: Judgement, quantized: Judgement) -> dict[str, float]:
    """Returns how alike two judgements of the same windows are.

    `label_agreement` is the share of equal labels; `score_correlation` is Spearman's, because scores of
    anomalies span decades and only their order decides.
    """
    return {
        "label_agreement": float(np.mean(reference.labels == quantized.labels)),
        "score_correlation": _rank_correlation(reference.scores, quantized.scores),
    }


def output_difference(reference: F32, quantized: F32) -> dict[str, float]:
    """Returns the mean and the largest absolute difference of two outputs, and the float output's spread."""
    difference = np.abs(np.asarray(reference, np.float64) - np.asarray(quantized, np.float64))
    return {
        "mean_difference": float(np.mean(difference)),
        "max_difference": float(np.max(difference)),
        "float_std": float(np.std(reference)),
    }


def gate_problems(gates: Iterable[Gate], figures: dict[str, float]) -> Iterator[str]:
    """Yields every gate that the figures miss, in words; a figure that is not there misses its gate."""
    for gate in gates:
        value = figures.get(gate.figure)
        if value is None:
            yield f"{gate.figure} was not measured; measured: {', '.join(sorted(figures))}"
        elif gate.at_least is not None and not value >= gate.at_least:
            yield f"{gate.figure} is {value:.4g}; at least {gate.at_least:g} is asked"
        elif gate.at_most is not None and not value <= gate.at_most:
            yield f"{gate.figure} is {value:.4g}; at most {gate.at_most:g} is asked"


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    ranks = [np.argsort(np.argsort(x, kind="stable"), kind="stable").astype(float) for x in (a, b)]
    if len(a) < 2:
        return 1.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
