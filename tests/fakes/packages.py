"""A tiny real model package, built on the spot: an anomaly score that is a window's mean magnitude."""

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from contract.calibration import Quantiles
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
)
from edge_agent.errors import ModelError
from edge_agent.inference.package import read_package
from edge_agent.inference.scorer import Scorer, Scores

THRESHOLD = 3.0
"""Windows whose mean magnitude is above are anomalies."""


def zero_model(features: int) -> bytes:
    """An ONNX model that reconstructs every input as zeros."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["features", "nothing"], ["reconstruction"])],
        "zero",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["N", features])],
        [helper.make_tensor_value_info("reconstruction", TensorProto.FLOAT, ["N", features])],
        [numpy_helper.from_array(np.zeros((), dtype=np.float32), "nothing")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    return bytes(model.SerializeToString())


def write_package(
    folder: Path,
    *,
    family: str = "tiny",
    channels: tuple[str, ...] = ("flow",),
    window: int = 3,
    hop: int = 1,
    release: int = 7,
    labels: tuple[str, str] = ("normal", "anomaly"),
    envelope: float | None = None,
) -> Path:
    """Writes the package and returns its folder."""
    width = window * len(channels)
    spec = FeatureSpec(
        channels=channels,
        window=window,
        hop=hop,
        steps=(Values(),),
        envelope_low=None if envelope is None else (-envelope,) * width,
        envelope_high=None if envelope is None else (envelope,) * width,
    )
    model = zero_model(width)
    windows = np.stack([np.zeros((window, len(channels))), np.full((window, len(channels)), 9.0)])
    times = np.zeros((2, window))
    features = compile_features(spec)(windows, times)
    golden = GoldenVectors(windows, times, features, np.zeros_like(features), np.array([0, 1]))
    blobs = {"device.onnx": model, "golden.msgpack": encode_golden(golden)}
    variant = Variant(
        name="device",
        role="device",
        runtime="onnx",
        opset=17,
        path="device.onnx",
        precision="int8",
        inputs=(TensorSpec("features", "float32", (-1, width)),),
        outputs=(TensorSpec("reconstruction", "float32", (-1, width)),),
        score="reconstruction_error",
        calibration=Quantiles((0.0, 1.0, THRESHOLD), (1.0, 0.5, 0.01), 1.0),
        batch_buckets=(1, 8),
        resources=Resources(5.0, 8.0),
        golden=Golden("golden.msgpack", 0.01),
        threshold=THRESHOLD,
    )
    manifest = Manifest(
        format="1.0",
        family=family,
        release=release,
        version="1.0",
        created="2026-12-01T00:00:00Z",
        kind="anomaly",
        labels=labels,
        features=spec,
        feature_digest=feature_digest(spec),
        variants=(variant,),
        blobs=tuple(describe_blob(path, content) for path, content in blobs.items()),
        compatibility=Compatibility(tuple(ChannelNeed(c, "", 0.0, 100.0) for c in channels), 1.0),
        provenance=Provenance("tests", "made up", "0" * 64, {"onnx": "1"}, {}),
        minimum_agent="0.1.0",
    )
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in blobs.items():
        (folder / path).write_bytes(content)
    (folder / "manifest.json").write_bytes(encode_manifest(manifest))
    return folder


def tiny_scorer(folder: Path, **given: Any) -> Scorer:
    """The scorer of such a package."""
    return Scorer(read_package(write_package(folder, **given)))


class FailingScorer(Scorer):
    """A scorer whose model fails for as long as `failing` is set."""

    failing = True

    def score(self, values: np.ndarray, times_s: np.ndarray) -> Scores:
        if self.failing:
            raise ModelError("the model failed: out of memory")
        return super().score(values, times_s)
