"""The parts of a model package manifest, as they are written; `contract.manifest` reads and checks them."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from contract.calibration import Calibration
from contract.features import FeatureSpec

CHUNK_BYTES: Final = 128 * 1024


class ManifestError(ValueError):
    """A manifest or a blob that must not be used; the message says which part and why."""


class TensorSpec(msgspec.Struct, frozen=True):
    """One input or output of a model; exactly one axis of `shape` is -1: the batch."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def batch_axis(self) -> int:
        """The axis that counts windows; not always 0, so nobody needs to guess."""
        return self.shape.index(-1)


class Resources(msgspec.Struct, frozen=True):
    """What the variant may cost: 95th percentile of a one-window run in ms, and memory in MB."""

    max_p95_ms: float
    ram_mb: float


class Golden(msgspec.Struct, frozen=True):
    """Known inputs and outputs (`contract.golden`) and how far a right output may be from them, absolutely.

    An INT8 model may round one step differently on another CPU; `tolerance` is a few of its output steps.
    """

    path: str
    tolerance: float


class Variant(msgspec.Struct, frozen=True):
    """One runnable form of the model: small and INT8 for a device, or large and float for the hub.

    `score` says how an output becomes a score (`contract.scoring`); `calibration` and `threshold` were fitted
    on this very variant. `runtime` is a name and not a closed list, so that an agent can pass over a variant
    for a runtime it does not have.
    """

    name: str
    role: Literal["device", "hub"]
    runtime: str
    opset: int
    path: str
    precision: Literal["int8", "float32"]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    score: Literal["reconstruction_error", "softmax"]
    calibration: Calibration
    batch_buckets: tuple[int, ...]
    resources: Resources
    golden: Golden
    threshold: float | None = None


class Blob(msgspec.Struct, frozen=True):
    """One file of the package: where, how long, and the hash of all of it and of each chunk."""

    path: str
    sha256: str
    length: int
    chunks: tuple[str, ...]
    chunk_bytes: int = CHUNK_BYTES


class ChannelNeed(msgspec.Struct, frozen=True):
    """A channel the model was trained on: its unit, and the range of its training values."""

    name: str
    unit: str
    low: float
    high: float


class Compatibility(msgspec.Struct, frozen=True):
    """What a stream must offer: these channels, one reading every `period_s`; hardware tags if any."""

    channels: tuple[ChannelNeed, ...]
    period_s: float
    hardware: tuple[str, ...] = ()


class Provenance(msgspec.Struct, frozen=True):
    """Where the model comes from: recipe, data and its digest, tools, and the report's figures by name."""

    recipe: str
    data: str
    data_digest: str
    tools: dict[str, str]
    report: dict[str, float]


class Manifest(msgspec.Struct, frozen=True):
    """One release of one family. `release` only grows; `version` and `created` are for people."""

    format: str
    family: str
    release: int
    version: str
    created: str
    kind: Literal["anomaly", "classification"]
    labels: tuple[str, ...]
    features: FeatureSpec
    feature_digest: str
    variants: tuple[Variant, ...]
    blobs: tuple[Blob, ...]
    compatibility: Compatibility
    provenance: Provenance
    minimum_agent: str
