"""package.md: the manifest of a model package, and the description that `quantize package` reads."""

from __future__ import annotations

import inspect

import msgspec

from contract import calibration, feature_steps, features, manifest, manifest_parts
from docs.generator.fields import struct_rows
from docs.generator.markdown import block, code, document, table
from quantize import description

_INTRODUCTION = """
A package is a folder: `manifest.json` beside the files that it names. It is one release of one model family, in one or more
variants for devices and for the hub. It holds data, never code: ONNX graphs without external data, and golden vectors.
`quantize report FOLDER` proves one on this machine.
"""
_READING = """
Unknown fields are ignored, except in the feature specification, where they would change the result. An unknown major `format` is
refused. Paths are relative to the folder.
"""
SAMPLE = """
family = "pump"
release = 2
version = "1.0"
created = "2026-12-01T00:00:00Z"
kind = "anomaly"
labels = ["normal", "anomaly"]
data = "four weeks of the pump at rest"
windows = "windows.npz"

[features]
channels = ["x"]
window = 4
hop = 1
steps = [{ kind = "values" }]

[compatibility]
channels = [{ name = "x", unit = "bar", low = -5.0, high = 5.0 }]
period_s = 1.0

[[variants]]
name = "device-int8"
role = "device"
precision = "int8"
file = "small.onnx"
resources = { max_p95_ms = 50.0, ram_mb = 8.0 }
"""
_DESCRIPTION = """
`quantize package DESCRIPTION --out FOLDER` makes a package from models that exist already. `windows` names an NPZ file with
`values` [windows, readings, channels] and `times` [windows, readings] (UTC seconds since 1970). For an anomaly model these must be
windows of normal operation: the threshold (the highest score times `threshold_margin`) and the confidence are fitted on them, under each model
itself. For a classifier they only become golden vectors, and `temperature` sets its confidence. Files are named relative to the description.
"""
_MANIFEST = (
    manifest_parts.Manifest,
    manifest_parts.Variant,
    manifest_parts.TensorSpec,
    manifest_parts.Resources,
    manifest_parts.Golden,
    manifest_parts.Blob,
    manifest_parts.Compatibility,
    manifest_parts.ChannelNeed,
    manifest_parts.Provenance,
)
_FEATURES = (
    features.FeatureSpec,
    feature_steps.Values,
    feature_steps.Statistics,
    feature_steps.TimeOfDay,
    feature_steps.Profile,
)
_CALIBRATIONS = (calibration.Temperature, calibration.Quantiles)


def page() -> str:
    """The page."""
    return document(
        "Model packages",
        _INTRODUCTION,
        "## manifest.json",
        f"Format {manifest.FORMAT}, canonical JSON, at most {manifest.MAX_MANIFEST_BYTES // 1024**2} MiB.",
        _READING,
        *_structs(_MANIFEST),
        "## Feature specification",
        "How a window becomes a model's input: the same code in the workshop, on the device and in the hub. Steps and calibrations carry "
        "their name as `kind`.",
        *_structs(_FEATURES),
        f"Statistics: {', '.join(map(code, feature_steps.STATISTICS))}.",
        "## Calibrations",
        *_structs(_CALIBRATIONS),
        "## The description for `quantize package`",
        _DESCRIPTION,
        block(SAMPLE, "toml"),
        *_structs((description.Description, description.VariantDescription)),
    )  # fmt: skip


def _structs(structs: tuple[type[msgspec.Struct], ...]) -> list[str]:
    parts = []
    for struct in structs:
        tag = msgspec.inspect.type_info(struct).tag  # type: ignore[attr-defined]
        title = f"### {struct.__name__}" + (f' (`kind = "{tag}"`)' if tag else "")
        parts += [title, inspect.getdoc(struct) or ""]
        rows = [(code(name), kind, default) for name, kind, default in struct_rows(struct)]
        if rows:
            parts.append(table(("field", "type", "default"), rows))
    return parts
