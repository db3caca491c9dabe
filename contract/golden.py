"""Golden vectors: known windows and what a right installation makes of them, from features to confidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from contract.features import compile_features
from contract.manifest import Manifest, ManifestError, Variant
from contract.scoring import judge
from contract.tensors import Tensor, TensorError, pack_array, unpack_array

MAX_GOLDEN_BYTES: Final = 8 * 1024 * 1024
FEATURE_TOLERANCE: Final = 1e-4
"""Features are computed in double precision; CPUs differ by the last bits of a 32-bit number at most."""


@dataclass(frozen=True, slots=True)
class GoldenVectors:
    """B windows f64 [B, N, C] at times f64 [B, N], their features f32 [B, F], the model's output, and labels i64 [B]."""

    windows: NDArray[np.float64]
    times: NDArray[np.float64]
    features: NDArray[np.float32]
    output: NDArray[np.float32]
    labels: NDArray[np.int64]


class _GoldenBlob(msgspec.Struct, frozen=True):
    windows: Tensor
    times: Tensor
    features: Tensor
    output: Tensor
    labels: Tensor


def encode_golden(golden: GoldenVectors) -> bytes:
    """Returns the MessagePack blob that `decode_golden` reads back equal, bit for bit."""
    return msgspec.msgpack.encode(
        _GoldenBlob(
            windows=pack_array(golden.windows),
            times=pack_array(golden.times),
            features=pack_array(golden.features),
            output=pack_array(golden.output),
            labels=pack_array(golden.labels),
        )
    )


def decode_golden(data: bytes) -> GoldenVectors:
    """Returns the vectors in a golden blob; raises ManifestError and nothing else."""
    if len(data) > MAX_GOLDEN_BYTES:
        raise ManifestError(f"golden vectors of {len(data)} bytes; at most {MAX_GOLDEN_BYTES}")
    try:
        blob = msgspec.msgpack.decode(data, type=_GoldenBlob)
        golden = GoldenVectors(
            windows=_array(blob.windows, "float64", 3),
            times=_array(blob.times, "float64", 2),
            features=_array(blob.features, "float32", 2),
            output=_array(blob.output, "float32", 2),
            labels=_array(blob.labels, "int64", 1),
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TensorError) as error:
        raise ManifestError(f"not golden vectors: {error}") from error
    batch = len(golden.windows)
    if batch == 0 or any(
        len(part) != batch for part in (golden.times, golden.features, golden.output, golden.labels)
    ):
        raise ManifestError("golden vectors: parts of different lengths, or none")
    return golden


def golden_problems(
    manifest: Manifest,
    variant: Variant,
    golden: GoldenVectors,
    run: Callable[[NDArray[np.float32]], NDArray[Any]],
) -> Iterator[str]:
    """Yields how this machine differs from the workshop, in words; nothing if it computes the same.

    `run` maps features f32 [B, F] to the model's output with the batch axis first.
    """
    features = compile_features(manifest.features)(golden.windows, golden.times)
    if features.shape != golden.features.shape:
        yield f"features have shape {features.shape}, golden {golden.features.shape}"
        return
    drift = float(np.max(np.abs(features - golden.features)))
    if not drift <= FEATURE_TOLERANCE:
        yield f"features differ by {drift:.3g}; at most {FEATURE_TOLERANCE:g}"
    output = np.asarray(run(golden.features))
    if output.shape != golden.output.shape:
        yield f"the output has shape {output.shape}, golden {golden.output.shape}"
        return
    drift = float(np.max(np.abs(output - golden.output)))
    if not drift <= variant.golden.tolerance:
        yield f"the output differs by {drift:.3g}; at most {variant.golden.tolerance:g}"
    labels = judge(variant, features=golden.features, output=output).labels
    wrong = int(np.count_nonzero(labels != golden.labels))
    if wrong:
        yield f"{wrong} of {len(labels)} golden windows get another label"


def _array(tensor: Tensor, dtype: str, axes: int) -> NDArray[Any]:
    if tensor.dtype != dtype or len(tensor.shape) != axes:
        raise TensorError(f"expected {dtype} with {axes} axes")
    return unpack_array(tensor, max_bytes=MAX_GOLDEN_BYTES)
