"""Refuses what a model must not see, before it reaches a queue. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from contract.features import feature_count
from contract.manifest import Manifest
from contract.tensors import Tensor, TensorError, unpack_array

MAX_INPUT_BYTES: Final = 4 * 1024 * 1024

F32 = NDArray[np.float32]


class BadInput(ValueError):
    """Features that do not belong to the model; the text says how."""


def check_features(manifest: Manifest, *, digest: str, features: Tensor) -> F32:
    """The features as an array [b, f], b at least 1; raises BadInput."""
    if digest != manifest.feature_digest:
        raise BadInput(
            f"the features were made by another specification ({digest[:12]!r}…) than that of "
            f"{manifest.family} release {manifest.release} ({manifest.feature_digest[:12]}…)"
        )
    if features.dtype != "float32":
        raise BadInput(f"features are float32, got {features.dtype[:16]!r}")
    wanted = feature_count(manifest.features)
    if len(features.shape) != 2 or features.shape[1] != wanted or features.shape[0] < 1:
        raise BadInput(f"features have the shape [rows, {wanted}], got {list(features.shape)[:8]}")
    try:
        array: F32 = unpack_array(features, max_bytes=MAX_INPUT_BYTES)
    except TensorError as error:
        raise BadInput(str(error)) from error
    if not np.isfinite(array).all():
        raise BadInput("a feature is not finite")
    return array
