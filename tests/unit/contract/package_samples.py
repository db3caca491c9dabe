"""A small honest package in memory, to be bent by tests."""

from typing import Any

import numpy as np

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
)

FEATURES = FeatureSpec(channels=("flow",), window=3, hop=1, steps=(Values(),))
MODEL = bytes(range(256)) * 1200


def golden_vectors() -> GoldenVectors:
    windows = np.array([[[0.0], [0.1], [0.2]], [[9.0], [9.0], [9.0]]])
    times = np.zeros((2, 3))
    return GoldenVectors(
        windows=windows,
        times=times,
        features=compile_features(FEATURES)(windows, times),
        output=np.zeros((2, 3), dtype=np.float32),
        labels=np.array([0, 1]),
    )


def anomaly_variant(**fields: Any) -> Variant:
    given: dict[str, Any] = {
        "name": "device-int8",
        "role": "device",
        "runtime": "onnx",
        "opset": 17,
        "path": "device-int8.onnx",
        "precision": "int8",
        "inputs": (TensorSpec("features", "float32", (-1, 3)),),
        "outputs": (TensorSpec("reconstruction", "float32", (-1, 3)),),
        "score": "reconstruction_error",
        "calibration": Quantiles((0.0, 1.0, 2.0), (1.0, 0.5, 0.01), 1.0),
        "batch_buckets": (1, 8),
        "resources": Resources(5.0, 8.0),
        "golden": Golden("golden/device-int8.msgpack", 0.01),
        "threshold": 3.0,
    }
    return Variant(**(given | fields))


def class_variant(**fields: Any) -> Variant:
    given: dict[str, Any] = {
        "score": "softmax",
        "calibration": Temperature(1.0),
        "outputs": (TensorSpec("logits", "float32", (-1, 2)),),
        "threshold": None,
    }
    return anomaly_variant(**(given | fields))


def manifest(**fields: Any) -> Manifest:
    given: dict[str, Any] = {
        "format": "1.0",
        "family": "waterflow-anomaly",
        "release": 7,
        "version": "1.0",
        "created": "2026-12-01T00:00:00Z",
        "kind": "anomaly",
        "labels": ("normal", "anomaly"),
        "features": FEATURES,
        "feature_digest": feature_digest(FEATURES),
        "variants": (anomaly_variant(),),
        "blobs": (
            describe_blob("device-int8.onnx", MODEL),
            describe_blob("golden/device-int8.msgpack", encode_golden(golden_vectors())),
        ),
        "compatibility": Compatibility((ChannelNeed("flow", "l/s", 0.0, 100.0),), 3600.0),
        "provenance": Provenance("recipe.py", "made up", "0" * 64, {"onnx": "1"}, {"x": 1.0}),
        "minimum_agent": "0.1.0",
    }
    return Manifest(**(given | fields))
