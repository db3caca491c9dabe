"""Tiny real packages for the hub, made with onnx.helper: a classifier, an autoencoder, and bent ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from contract.calibration import Quantiles, Temperature
from contract.features import FeatureSpec, Values, compile_features, feature_digest
from contract.golden import GoldenVectors, encode_golden
from contract.manifest import (
    ChannelNeed,
    Compatibility,
    Golden,
    Manifest,
    Provenance,
    Resources,
    TensorSpec,
    Variant,
    describe_blob,
    encode_manifest,
    manifest_digest,
)
from contract.package import Package

SPEC = FeatureSpec(channels=("a", "b"), window=2, hop=1, steps=(Values(),))
FEATURES = 4
LABELS = ("low", "middle", "high")
BIG_BIAS = np.array([0.0, 0.5, -1.0], dtype=np.float32)


def weights() -> np.ndarray:
    return np.random.default_rng(7).normal(size=(FEATURES, len(LABELS))).astype(np.float32)


def classifier_model(
    *, domain: str = "", external: bool = False, transposed: bool = False
) -> bytes:
    """Returns logits = features · W + b; with a custom domain, external data, or the batch on axis 1 where asked."""
    weight = numpy_helper.from_array(weights(), "w")
    if external:
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        entry = weight.external_data.add()
        entry.key, entry.value = "location", "/etc/hostname"
    nodes = [helper.make_node("Gemm", ["features", "w", "b"], ["out"], domain=domain)]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [None, len(LABELS)])]
    if transposed:
        nodes.append(helper.make_node("Transpose", ["out"], ["logits"], perm=[1, 0]))
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [len(LABELS), None])]
    else:
        nodes.append(helper.make_node("Identity", ["out"], ["logits"]))
    inputs = [helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, FEATURES])]
    constants = [weight, numpy_helper.from_array(BIG_BIAS, "b")]
    return _model(nodes, inputs, outputs, constants, domain)


def autoencoder_model() -> bytes:
    """Returns reconstruction = features · 0.5: the error is half the mean absolute feature."""
    half = numpy_helper.from_array(np.array(0.5, dtype=np.float32), "half")
    nodes = [helper.make_node("Mul", ["features", "half"], ["reconstruction"])]
    inputs = [helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, FEATURES])]
    outputs = [helper.make_tensor_value_info("reconstruction", TensorProto.FLOAT, [None, FEATURES])]
    return _model(nodes, inputs, outputs, [half], "")


def classifier_package(model: bytes | None = None, *, release: int = 3, **variant: Any) -> Package:
    """The classifier as a package in memory, of family `tiny-class`."""
    windows = np.arange(12, dtype=np.float64).reshape(3, 2, 2) / 10
    times = np.zeros((3, 2))
    features = compile_features(SPEC)(windows, times)
    output = (features @ weights() + BIG_BIAS).astype(np.float32)
    golden = GoldenVectors(windows, times, features, output, np.argmax(output, axis=1))
    fields: dict[str, Any] = {
        "name": "hub-float32",
        "role": "hub",
        "runtime": "onnx",
        "opset": 17,
        "path": "hub.onnx",
        "precision": "float32",
        "inputs": (TensorSpec("features", "float32", (-1, FEATURES)),),
        "outputs": (TensorSpec("logits", "float32", (-1, len(LABELS))),),
        "score": "softmax",
        "calibration": Temperature(1.0),
        "batch_buckets": (1, 4, 16),
        "resources": Resources(5.0, 8.0),
        "golden": Golden("golden.msgpack", 1e-4),
    }
    return _package(
        "tiny-class",
        "classification",
        labels=LABELS,
        variant=Variant(**(fields | variant)),
        golden=golden,
        release=release,
        model=classifier_model() if model is None else model,
    )


def anomaly_package(*, release: int = 5) -> Package:
    """The autoencoder as a package in memory, of family `tiny-anomaly`; an error above 1 is an anomaly."""
    windows = np.array([[[0.0, 0.2], [0.1, 0.1]], [[9.0, 9.0], [9.0, 9.0]]])
    times = np.zeros((2, 2))
    features = compile_features(SPEC)(windows, times)
    golden = GoldenVectors(windows, times, features, features * np.float32(0.5), np.array([0, 1]))
    variant = Variant(
        name="hub-float32",
        role="hub",
        runtime="onnx",
        opset=17,
        path="hub.onnx",
        precision="float32",
        inputs=(TensorSpec("features", "float32", (-1, FEATURES)),),
        outputs=(TensorSpec("reconstruction", "float32", (-1, FEATURES)),),
        score="reconstruction_error",
        calibration=Quantiles((0.0, 1.0, 2.0), (1.0, 0.5, 0.01), 1.0),
        batch_buckets=(1, 8),
        resources=Resources(5.0, 8.0),
        golden=Golden("golden.msgpack", 1e-4),
        threshold=1.0,
    )
    labels = ("normal", "anomaly")
    return _package(
        "tiny-anomaly",
        "anomaly",
        labels=labels,
        variant=variant,
        golden=golden,
        release=release,
        model=autoencoder_model(),
    )


def write_package(package: Package, golden: bytes, folder: Path) -> Path:
    """The package as a folder."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_bytes(encode_manifest(package.manifest))
    (folder / package.variant.path).write_bytes(package.model)
    (folder / package.variant.golden.path).write_bytes(golden)
    return folder


def write_classifier(folder: Path, *, release: int = 3) -> Path:
    """The classifier's folder."""
    package = classifier_package(release=release)
    return write_package(package, encode_golden(package.golden), folder)


def write_anomaly(folder: Path) -> Path:
    """The autoencoder's folder."""
    package = anomaly_package()
    return write_package(package, encode_golden(package.golden), folder)


def _package(
    family: str,
    kind: Any,
    *,
    labels: tuple[str, ...],
    variant: Variant,
    golden: GoldenVectors,
    release: int,
    model: bytes,
) -> Package:
    manifest = Manifest(
        format="1.0",
        family=family,
        release=release,
        version="1.0",
        created="2026-12-01T00:00:00Z",
        kind=kind,
        labels=labels,
        features=SPEC,
        feature_digest=feature_digest(SPEC),
        variants=(variant,),
        blobs=(
            describe_blob(variant.path, model),
            describe_blob(variant.golden.path, encode_golden(golden)),
        ),
        compatibility=Compatibility(
            (ChannelNeed("a", "m", 0.0, 1.0), ChannelNeed("b", "m", 0.0, 1.0)), 1.0
        ),
        provenance=Provenance("recipe.py", "made up", "0" * 64, {"onnx": "1"}, {"x": 1.0}),
        minimum_agent="0.1.0",
    )
    digest = manifest_digest(encode_manifest(manifest))
    return Package(manifest, digest, variant, model, golden)


def _model(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: list[Any], domain: str
) -> bytes:
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return bytes(model.SerializeToString())
