"""Makes a package from models that exist already: a TOML description, model files and recorded windows.

The windows (an NPZ with `values` [B, N, C] and `times` [B, N]) are normal ones for an anomaly model: quantiles
and threshold are fitted on them, under each model itself. For a classifier they only become golden vectors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec
import numpy as np
import onnx

from contract.calibration import Calibration, Temperature
from contract.canonical import sha256_hex
from contract.features import FeatureError, FeatureSpec, compile_features, feature_digest
from contract.golden import encode_golden
from contract.manifest import (
    FORMAT,
    Compatibility,
    Golden,
    Manifest,
    ManifestError,
    Provenance,
    Resources,
    Variant,
    describe_blob,
    encode_manifest,
    manifest_digest,
)
from contract.scoring import reconstruction_error
from quantize.arrays import read_arrays
from quantize.build import tool_versions
from quantize.calibrate import fit_quantiles, fit_threshold
from quantize.errors import InputError
from quantize.package import write_package
from quantize.plan import F32, Windows
from quantize.proofs import golden_vectors, tolerance_of
from quantize.session import Runner, load
from quantize.variants import tensor_of

GOLDEN_WINDOWS: Final = 16


class VariantDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model file. `temperature` is for classifiers, `threshold_margin` for anomaly models."""

    name: str
    role: Literal["device", "hub"]
    precision: Literal["int8", "float32"]
    file: str
    resources: Resources
    batch_buckets: tuple[int, ...] = (1, 8, 64)
    temperature: float = 1.0
    threshold_margin: float = 1.25


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person knows and the files do not say; files are named relative to the description."""

    family: str
    release: int
    version: str
    created: str
    kind: Literal["anomaly", "classification"]
    labels: tuple[str, ...]
    data: str
    windows: str
    features: FeatureSpec
    compatibility: Compatibility
    variants: tuple[VariantDescription, ...]
    minimum_agent: str = "0.1.0"


class PackageSummary(msgspec.Struct, frozen=True):
    """What was written."""

    family: str
    release: int
    sha256: str
    package_bytes: int


def package_from(path: Path, *, out: Path) -> PackageSummary:
    """Writes the described package into `out`; raises InputError if description, models and windows disagree."""
    try:
        described = msgspec.toml.decode(path.read_bytes(), type=Description)
        windows = _windows(path.parent / described.windows)
        features = compile_features(described.features)(windows.values, windows.times)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, FeatureError) as error:
        raise InputError(f"{path}: {error}") from error
    variants: list[Variant] = []
    blobs: dict[str, bytes] = {}
    for wanted in described.variants:
        model = _read(path.parent / wanted.file)
        variant, golden = _variant(described.kind, wanted, model, windows, features)
        variants.append(variant)
        blobs |= {variant.path: model, variant.golden.path: golden}
    try:
        manifest = encode_manifest(
            _manifest(described, path.name, variants=variants, blobs=blobs, windows=windows)
        )
    except ManifestError as error:
        raise InputError(f"{path}: {error}") from error
    write_package(out, manifest=manifest, blobs=blobs)
    return PackageSummary(
        family=described.family,
        release=described.release,
        sha256=manifest_digest(manifest),
        package_bytes=len(manifest) + sum(map(len, blobs.values())),
    )


def _variant(
    kind: str, wanted: VariantDescription, model: bytes, windows: Windows, features: F32
) -> tuple[Variant, bytes]:
    runner = load(model)
    output = _output(runner, wanted, features)
    calibration: Calibration = Temperature(t=wanted.temperature)
    threshold = None
    if kind == "anomaly":
        if output.shape != features.shape:
            raise InputError(
                f"{wanted.file}: its output is no reconstruction of {features.shape[1]} features"
            )
        scores = reconstruction_error(features, output)
        calibration = fit_quantiles(scores)
        threshold = fit_threshold(scores, margin=wanted.threshold_margin)
    variant = Variant(
        name=wanted.name,
        role=wanted.role,
        runtime="onnx",
        opset=_opset(model),
        path=f"{wanted.name}.onnx",
        precision=wanted.precision,
        inputs=(tensor_of(runner.input_name, features.shape[1]),),
        outputs=(tensor_of(runner.output_name, output.shape[1]),),
        score="reconstruction_error" if kind == "anomaly" else "softmax",
        calibration=calibration,
        threshold=threshold,
        batch_buckets=wanted.batch_buckets,
        resources=wanted.resources,
        golden=Golden(
            path=f"golden/{wanted.name}.msgpack", tolerance=tolerance_of(wanted.precision, output)
        ),
    )
    rows = np.linspace(0, len(features) - 1, min(GOLDEN_WINDOWS, len(features))).astype(np.int64)
    golden = golden_vectors(variant, windows=windows, features=features, output=output, rows=rows)
    return variant, encode_golden(golden)


def _output(runner: Runner, wanted: VariantDescription, features: F32) -> F32:
    output = np.asarray(runner(features), dtype=np.float32)
    if output.ndim != 2 or len(output) != len(features):
        raise InputError(f"{wanted.file}: its output {output.shape} is not one row per window")
    return output


def _manifest(
    described: Description,
    recipe: str,
    *,
    variants: list[Variant],
    blobs: dict[str, bytes],
    windows: Windows,
) -> Manifest:
    data = np.ascontiguousarray(windows.values, "<f8").tobytes()
    return Manifest(
        format=FORMAT,
        family=described.family,
        release=described.release,
        version=described.version,
        created=described.created,
        kind=described.kind,
        labels=described.labels,
        features=described.features,
        feature_digest=feature_digest(described.features),
        variants=tuple(variants),
        blobs=tuple(describe_blob(name, content) for name, content in sorted(blobs.items())),
        compatibility=described.compatibility,
        provenance=Provenance(
            recipe=recipe,
            data=described.data,
            data_digest=sha256_hex(data),
            tools=tool_versions(),
            report={},
        ),
        minimum_agent=described.minimum_agent,
    )


def _windows(path: Path) -> Windows:
    arrays = read_arrays(path)
    if not {"values", "times"} <= set(arrays):
        raise InputError(f"{path} must hold `values` [B, N, C] and `times` [B, N]")
    values = np.asarray(arrays["values"], dtype=np.float64)
    times = np.asarray(arrays["times"], dtype=np.float64)
    if values.size == 0 or not (np.isfinite(values).all() and np.isfinite(times).all()):
        raise InputError(f"{path}: windows must exist and hold finite numbers only")
    return Windows(values=values, times=times)


def _opset(model: bytes) -> int:
    opsets = onnx.load_model_from_string(model).opset_import
    return max((int(o.version) for o in opsets if o.domain in ("", "ai.onnx")), default=0)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
