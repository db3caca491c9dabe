"""Chooses what proves an installation: golden windows that are far from any edge, and an honest tolerance."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from contract.golden import GoldenVectors
from contract.manifest import Variant
from contract.scoring import judge, reconstruction_error
from quantize.errors import InputError
from quantize.plan import F32, Windows

FLOAT_TOLERANCE: Final = 1e-3
INT8_TOLERANCE_STEPS: Final = 3.0


def tolerance_of(precision: Literal["int8", "float32"], output: F32) -> float:
    """Returns how far another CPU's output may be off: three INT8 steps of the output's range, or 0.001 in float."""
    if precision == "float32":
        return FLOAT_TOLERANCE
    step = float(np.max(output) - np.min(output)) / 255.0
    return max(round(INT8_TOLERANCE_STEPS * step, 6), FLOAT_TOLERANCE)


def golden_vectors(
    variant: Variant, *, windows: Windows, features: F32, output: F32, rows: NDArray[np.int64]
) -> GoldenVectors:
    """Returns the golden vectors of those `rows` that keep their label when the output is off by the tolerance.

    Raises InputError if no row does.
    """
    kept = rows[_steadfast(variant, features[rows], output[rows])]
    if len(kept) == 0:
        raise InputError(f"{variant.name}: every golden window lies on the edge of a decision")
    return GoldenVectors(
        windows=windows.values[kept],
        times=windows.times[kept],
        features=features[kept],
        output=output[kept],
        labels=judge(variant, features=features[kept], output=output[kept]).labels,
    )


def _steadfast(variant: Variant, features: F32, output: F32) -> NDArray[np.bool_]:
    if variant.threshold is not None:
        distance = np.abs(reconstruction_error(features, output) - variant.threshold)
        return np.asarray(distance > variant.golden.tolerance)
    ordered = np.sort(np.asarray(output, dtype=np.float64), axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2] > 2 * variant.golden.tolerance)
