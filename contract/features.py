"""The feature specification and its one implementation, used in training and on the device alike.

    FeatureError(ValueError)   a specification that means nothing, or an input of the wrong shape

Missing values are the caller's business: a NaN in a window makes NaN features (in that window only), so
score complete windows or fill the holes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from contract.canonical import canonical_json, sha256_hex
from contract.feature_steps import (
    Profile,
    Statistics,
    Step,
    StepProtocol,
    TimeOfDay,
    Values,
    WindowBatch,
)

__all__ = [
    "FeatureError",
    "FeatureFunction",
    "FeatureSpec",
    "Profile",
    "Statistics",
    "Step",
    "TimeOfDay",
    "Values",
    "compile_features",
    "feature_count",
    "feature_digest",
    "feature_names",
    "inside_envelope",
    "validate_features",
]

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

MAX_CHANNELS: Final = 256
MAX_WINDOW_ROWS: Final = 65_536
MAX_STEPS: Final = 64
MAX_FEATURES: Final = 65_536

FeatureFunction = Callable[[F64, F64], F32]
"""Maps windows f64 [B, N, C] and row times f64 [B, N] (UTC epoch s) to features f32 [B, F]."""


class FeatureError(ValueError):
    """A feature specification that cannot be computed, or an array that does not fit it."""


class FeatureSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a window becomes a model's input; an unknown field is refused, because it would change the result.

    `channels` names the last axis of a window, `window` is its length in rows and `hop` the rows between
    two windows. The outputs of `steps` are concatenated, then `(x - centre) / scale` per feature if given,
    then clipped to ±`clip` if given. `envelope_low` and `envelope_high`, one per feature, bound what the
    training data looked like; they change no feature (see `inside_envelope`).
    """

    channels: tuple[str, ...]
    window: int
    hop: int
    steps: tuple[Step, ...]
    centre: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    clip: float | None = None
    envelope_low: tuple[float, ...] | None = None
    envelope_high: tuple[float, ...] | None = None


def validate_features(spec: FeatureSpec) -> None:
    """Returns only if the specification can be computed; raises FeatureError naming the first problem."""
    for problem in _problems(spec):
        raise FeatureError(f"feature specification: {problem}")


def feature_count(spec: FeatureSpec) -> int:
    """Returns F, the number of features per window."""
    return sum(_protocol(s).width(spec.window, spec.channels) for s in spec.steps)


def feature_names(spec: FeatureSpec) -> tuple[str, ...]:
    """Returns one readable name per feature, in order, such as `flow[-3]` or `rms(acc_x)`."""
    return tuple(n for s in spec.steps for n in _protocol(s).names(spec.window, spec.channels))


def feature_digest(spec: FeatureSpec) -> str:
    """Returns the SHA-256 (hex) of the canonical form: equal for equal specifications, on every machine."""
    try:
        # Decoding once makes 1 and 1.0 the same number, as they are for a reader of the JSON.
        canonical = msgspec.json.decode(canonical_json(spec), type=FeatureSpec)
    except msgspec.MsgspecError as error:
        raise FeatureError(f"feature specification: {error}") from error
    return sha256_hex(canonical_json(canonical))


def compile_features(spec: FeatureSpec) -> FeatureFunction:
    """Returns the function that computes the features; row i depends on window i alone, bit for bit.

    The function raises FeatureError if its arrays do not have the shapes [B, window, channels] and
    [B, window]. B may be 0.
    """
    validate_features(spec)
    functions = tuple(_protocol(s).compiled(spec.window, spec.channels) for s in spec.steps)
    rows, columns = spec.window, len(spec.channels)
    centre = None if spec.centre is None else np.asarray(spec.centre, dtype=np.float64)
    scale = None if spec.scale is None else np.asarray(spec.scale, dtype=np.float64)
    clip = spec.clip

    def features(windows: F64, times: F64) -> F32:
        if windows.ndim != 3 or windows.shape[1:] != (rows, columns):
            raise FeatureError(f"windows of shape {windows.shape}; expected [B, {rows}, {columns}]")
        if times.shape != windows.shape[:2]:
            raise FeatureError(f"times of shape {times.shape}; expected {windows.shape[:2]}")
        by_row = np.ascontiguousarray(windows, dtype=np.float64)
        batch = WindowBatch(
            by_row=by_row,
            by_channel=np.ascontiguousarray(by_row.transpose(0, 2, 1)),
            times=np.ascontiguousarray(times, dtype=np.float64),
        )
        parts = [function(batch) for function in functions]
        x = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if centre is not None:
            x = x - centre
        if scale is not None:
            x = x / scale
        if clip is not None:
            x = np.clip(x, -clip, clip)
        return np.ascontiguousarray(x, dtype=np.float32)

    return features


def inside_envelope(spec: FeatureSpec, features: F32) -> NDArray[np.bool_]:
    """Returns, per row of features [B, F], whether every feature lies in the envelope; all True without one."""
    inside = np.ones(len(features), dtype=np.bool_)
    if spec.envelope_low is not None:
        inside &= np.all(features >= np.asarray(spec.envelope_low, dtype=np.float32), axis=1)
    if spec.envelope_high is not None:
        inside &= np.all(features <= np.asarray(spec.envelope_high, dtype=np.float32), axis=1)
    return inside


def _protocol(step: Step) -> StepProtocol:
    return step


def _problems(spec: FeatureSpec) -> Iterator[str]:
    if not 1 <= len(spec.channels) <= MAX_CHANNELS:
        yield f"needs 1 to {MAX_CHANNELS} channels, has {len(spec.channels)}"
    if any(not name or len(name) > 64 for name in spec.channels):
        yield "a channel name has 1 to 64 characters"
    if len(set(spec.channels)) != len(spec.channels):
        yield f"a channel is named twice in {spec.channels}"
    if not 1 <= spec.window <= MAX_WINDOW_ROWS:
        yield f"window must be 1 to {MAX_WINDOW_ROWS} rows, is {spec.window}"
    if not 1 <= spec.hop <= MAX_WINDOW_ROWS:
        yield f"hop must be 1 to {MAX_WINDOW_ROWS} rows, is {spec.hop}"
    if not 1 <= len(spec.steps) <= MAX_STEPS:
        yield f"needs 1 to {MAX_STEPS} steps, has {len(spec.steps)}"
    for index, step in enumerate(spec.steps):
        for problem in _protocol(step).problems(spec.window, spec.channels):
            yield f"steps[{index}]: {problem}"
    count = feature_count(spec)
    if count > MAX_FEATURES:
        yield f"{count} features; at most {MAX_FEATURES}"
    yield from _vector_problems(spec, count)


def _vector_problems(spec: FeatureSpec, count: int) -> Iterator[str]:
    vectors: dict[str, tuple[float, ...] | None] = {
        "centre": spec.centre,
        "scale": spec.scale,
        "envelope_low": spec.envelope_low,
        "envelope_high": spec.envelope_high,
    }
    for name, vector in vectors.items():
        if vector is None:
            continue
        if len(vector) != count:
            yield f"{name} has {len(vector)} numbers for {count} features"
        if any(not _finite(v) for v in vector):
            yield f"{name} holds finite numbers only"
    if spec.scale is not None and any(not v > 0 for v in spec.scale):
        yield "scale must be positive"
    if spec.clip is not None and not (_finite(spec.clip) and spec.clip > 0):
        yield f"clip must be positive and finite, is {spec.clip}"
    low, high = spec.envelope_low, spec.envelope_high
    if low is not None and high is not None and any(a > b for a, b in zip(low, high, strict=False)):
        yield "envelope_low lies above envelope_high"


def _finite(value: Any) -> bool:
    return math.isfinite(value)
