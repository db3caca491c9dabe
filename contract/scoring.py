"""From a model's output to label, score and confidence: the same code on the device, the hub and in the workshop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contract.calibration import Quantiles, Temperature, anomaly_confidence, probabilities
from contract.manifest import ManifestError, Variant

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a variant says of B windows.

    `labels` i64 [B] are indices into the manifest's labels; `scores` f64 [B] are the anomaly score, or the
    calibrated probability of the label; `confidence` f64 [B] lies from 0 to 1 (0.5 to 1 for an anomaly model).
    """

    labels: NDArray[np.int64]
    scores: F64
    confidence: F64


def reconstruction_error(features: NDArray[Any], output: NDArray[Any]) -> F64:
    """Returns the mean absolute difference per row, f64 [B], of what came in and what the model made of it.

    The error is taken against the features as computed, not as the model's input quantizer clipped them: a
    quantized autoencoder cannot see how far out a value was, but the difference can.
    """
    difference = np.asarray(features, dtype=np.float64) - np.asarray(output, dtype=np.float64)
    return np.asarray(np.mean(np.abs(difference), axis=1), dtype=np.float64)


def judge(variant: Variant, *, features: NDArray[np.float32], output: NDArray[Any]) -> Judgement:
    """Returns labels, scores and confidence of each row; row i depends on row i alone, bit for bit.

    `features` is [B, F] and `output` what the variant's model returned for it, with the batch axis first.
    """
    calibration = variant.calibration
    if variant.score == "reconstruction_error":
        if not isinstance(calibration, Quantiles) or variant.threshold is None:
            raise ManifestError(
                f"variant {variant.name}: a reconstruction error needs quantiles and a threshold"
            )
        scores = reconstruction_error(features, output)
        return Judgement(
            labels=(scores > variant.threshold).astype(np.int64),
            scores=scores,
            confidence=anomaly_confidence(calibration, scores, threshold=variant.threshold),
        )
    if not isinstance(calibration, Temperature):
        raise ManifestError(f"variant {variant.name}: a softmax score needs a temperature")
    share = probabilities(calibration, output)
    labels = np.argmax(share, axis=1).astype(np.int64)
    top = np.ascontiguousarray(share[np.arange(len(share)), labels])
    return Judgement(labels=labels, scores=top, confidence=top)
