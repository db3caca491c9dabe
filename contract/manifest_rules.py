"""What must hold between the parts of a manifest; each rule yields a sentence when it is broken."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from contract.calibration import Quantiles, Temperature, calibration_problems
from contract.features import (
    FeatureError,
    feature_count,
    feature_digest,
    validate_features,
)
from contract.manifest_parts import Blob, Manifest, TensorSpec, Variant
from contract.tensors import DTYPES, MAX_DIMENSIONS

FAMILY: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}")
VERSION: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}")
CREATED: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
SHA256: Final = re.compile(r"[0-9a-f]{64}")
PATH: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")

MANIFEST_NAME: Final = "manifest.json"
MAX_RELEASE: Final = 2**53 - 1
MAX_PATH: Final = 200
MAX_BLOBS: Final = 256
MAX_VARIANTS: Final = 16
MAX_LABELS: Final = 1000
MAX_BLOB_BYTES: Final = 64 * 2**30
MIN_CHUNK_BYTES: Final = 4096
MAX_CHUNK_BYTES: Final = 4 * 2**20
MAX_BATCH: Final = 65_536
ANOMALY_LABELS: Final = ("normal", "anomaly")


def manifest_problems(manifest: Manifest) -> Iterator[str]:
    """Yields every rule that the manifest breaks, in words; nothing if it may be used."""
    yield from _head_problems(manifest)
    yield from _feature_problems(manifest)
    yield from _blob_problems(manifest)
    yield from _compatibility_problems(manifest)
    if not 1 <= len(manifest.variants) <= MAX_VARIANTS:
        yield f"needs 1 to {MAX_VARIANTS} variants, has {len(manifest.variants)}"
    names = [variant.name for variant in manifest.variants]
    if len(set(names)) != len(names):
        yield "two variants have the same name"
    for variant in manifest.variants:
        for problem in _variant_problems(manifest, variant):
            yield f"variant {variant.name!r}: {problem}"


def _head_problems(manifest: Manifest) -> Iterator[str]:
    if not FAMILY.fullmatch(manifest.family):
        yield f"family {manifest.family[:80]!r} must match {FAMILY.pattern}"
    if not 1 <= manifest.release <= MAX_RELEASE:
        yield f"release must be at least 1, is {manifest.release}"
    for name, text in (("version", manifest.version), ("minimum_agent", manifest.minimum_agent)):
        if not VERSION.fullmatch(text):
            yield f"{name} {text[:80]!r} must look like 1.2.3"
    if not CREATED.fullmatch(manifest.created):
        yield f"created {manifest.created[:80]!r} must look like 2026-01-31T00:00:00Z"
    labels = manifest.labels
    if not 2 <= len(labels) <= MAX_LABELS:
        yield f"needs 2 to {MAX_LABELS} labels, has {len(labels)}"
    if len(set(labels)) != len(labels) or not all(map(LABEL.fullmatch, labels)):
        yield f"labels must be different and match {LABEL.pattern}"
    if manifest.kind == "anomaly" and labels != ANOMALY_LABELS:
        yield f"an anomaly model has the labels {ANOMALY_LABELS}, in this order"


def _feature_problems(manifest: Manifest) -> Iterator[str]:
    try:
        validate_features(manifest.features)
        digest = feature_digest(manifest.features)
    except FeatureError as error:
        yield str(error)
        return
    if digest != manifest.feature_digest:
        yield "feature_digest does not belong to this feature specification"


def _blob_problems(manifest: Manifest) -> Iterator[str]:
    if not 1 <= len(manifest.blobs) <= MAX_BLOBS:
        yield f"needs 1 to {MAX_BLOBS} blobs, has {len(manifest.blobs)}"
    paths = [blob.path.casefold() for blob in manifest.blobs]
    if len(set(paths)) != len(paths):
        yield "two blobs have the same path (letter case does not count)"
    for blob in manifest.blobs:
        for problem in _one_blob_problems(blob):
            yield f"blob {blob.path[:80]!r}: {problem}"


def _one_blob_problems(blob: Blob) -> Iterator[str]:
    if len(blob.path) > MAX_PATH or not PATH.fullmatch(blob.path):
        yield "a path is relative, of plain letters, and no part of it starts with a dot"
    if blob.path.casefold() == MANIFEST_NAME:
        yield "this path is the manifest's own"
    if not 0 <= blob.length <= MAX_BLOB_BYTES:
        yield f"impossible length {blob.length}"
    if not MIN_CHUNK_BYTES <= blob.chunk_bytes <= MAX_CHUNK_BYTES:
        yield f"chunk_bytes must be {MIN_CHUNK_BYTES} to {MAX_CHUNK_BYTES}, is {blob.chunk_bytes}"
    elif len(blob.chunks) != -(-blob.length // blob.chunk_bytes):
        yield f"{len(blob.chunks)} chunk hashes do not fit {blob.length} bytes"
    if not all(map(SHA256.fullmatch, (blob.sha256, *blob.chunks))):
        yield "a hash has 64 lower-case hexadecimal digits"


def _compatibility_problems(manifest: Manifest) -> Iterator[str]:
    needs = manifest.compatibility
    if tuple(channel.name for channel in needs.channels) != manifest.features.channels:
        yield "compatibility and features name different channels"
    for channel in needs.channels:
        bounds = (channel.low, channel.high)
        if not all(map(math.isfinite, bounds)) or channel.low > channel.high:
            yield f"channel {channel.name[:80]!r}: low and high are no range"
    if not (math.isfinite(needs.period_s) and needs.period_s > 0):
        yield f"period_s must be positive, is {needs.period_s}"


def _variant_problems(manifest: Manifest, variant: Variant) -> Iterator[str]:
    if not FAMILY.fullmatch(variant.name):
        yield f"name must match {FAMILY.pattern}"
    if not FAMILY.fullmatch(variant.runtime):
        yield f"runtime must match {FAMILY.pattern}"
    if not 0 <= variant.opset <= 1000:
        yield f"impossible opset {variant.opset}"
    paths = {blob.path for blob in manifest.blobs}
    for path in (variant.path, variant.golden.path):
        if path not in paths:
            yield f"its file {path[:80]!r} is not among the blobs"
    yield from calibration_problems(variant.calibration)
    yield from _kind_problems(manifest, variant)
    buckets = variant.batch_buckets
    if not buckets or any(not 1 <= b <= MAX_BATCH for b in buckets):
        yield f"batch_buckets holds sizes from 1 to {MAX_BATCH}"
    if any(a >= b for a, b in pairwise(buckets)):
        yield "batch_buckets must rise"
    numbers = {
        "max_p95_ms": variant.resources.max_p95_ms,
        "ram_mb": variant.resources.ram_mb,
        "tolerance": variant.golden.tolerance,
    }
    for name, number in numbers.items():
        if not (math.isfinite(number) and number > 0):
            yield f"{name} must be positive, is {number}"


def _kind_problems(manifest: Manifest, variant: Variant) -> Iterator[str]:
    features = feature_count(manifest.features)
    anomaly = manifest.kind == "anomaly"
    if anomaly:
        if variant.score != "reconstruction_error" or not isinstance(
            variant.calibration, Quantiles
        ):
            yield "an anomaly model scores by reconstruction_error and is calibrated by quantiles"
        if variant.threshold is None or not math.isfinite(variant.threshold):
            yield "an anomaly model needs a finite threshold"
    elif variant.score != "softmax" or not isinstance(variant.calibration, Temperature):
        yield "a classifier scores by softmax and is calibrated by a temperature"
    if len(variant.inputs) != 1 or len(variant.outputs) != 1:
        yield "has one input and one output"
    for spec in (*variant.inputs, *variant.outputs):
        yield from _tensor_problems(spec)
    for spec, count in (
        *((spec, features) for spec in variant.inputs),
        *((spec, features if anomaly else len(manifest.labels)) for spec in variant.outputs),
    ):
        if sorted(spec.shape) != [-1, count]:
            yield f"tensor {spec.name[:80]!r} must be a batch of {count}, has shape {spec.shape}"


def _tensor_problems(spec: TensorSpec) -> Iterator[str]:
    if not 1 <= len(spec.name) <= 200:
        yield "a tensor's name has 1 to 200 characters"
    if spec.dtype not in DTYPES:
        yield f"tensor {spec.name[:80]!r}: unknown dtype; known: {', '.join(DTYPES)}"
    if len(spec.shape) > MAX_DIMENSIONS:
        yield f"tensor {spec.name[:80]!r}: more than {MAX_DIMENSIONS} axes"
