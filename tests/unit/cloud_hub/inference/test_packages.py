"""A package is used only if it is whole, says what the model is, and computes the same here."""

from pathlib import Path

import numpy as np
import pytest

from cloud_hub.errors import ConfigurationError, ModelFailed, PackageError
from cloud_hub.inference.backends.onnx import OnnxBackend
from cloud_hub.inference.entry import load_entries, load_entry
from cloud_hub.inference.packages import read_package
from cloud_hub.settings import InferenceSettings
from contract.golden import GoldenVectors
from contract.manifest import TensorSpec
from tests.unit.cloud_hub.tiny_package import (
    BIG_BIAS,
    FEATURES,
    LABELS,
    classifier_model,
    classifier_package,
    weights,
    write_anomaly,
    write_classifier,
)


def _backend(model: bytes, **variant) -> OnnxBackend:
    package = classifier_package(model, **variant)
    return OnnxBackend(package.model, package.variant, wish="cpu", threads=1)


def test_a_whole_package_is_read_and_served(tmp_path: Path):
    folders = [write_classifier(tmp_path / "class"), write_anomaly(tmp_path / "anomaly")]
    entries = load_entries(folders, InferenceSettings())
    assert {name: entry.release for name, entry in entries.items()} == {
        "tiny-class": 3,
        "tiny-anomaly": 5,
    }


def test_a_changed_blob_is_refused(tmp_path: Path):
    folder = write_classifier(tmp_path / "class")
    model = bytearray((folder / "hub.onnx").read_bytes())
    model[-1] ^= 1
    (folder / "hub.onnx").write_bytes(model)
    with pytest.raises(PackageError, match=r"hub\.onnx: content differs"):
        read_package(folder)


def test_a_folder_without_a_manifest_is_named(tmp_path: Path):
    with pytest.raises(PackageError, match=r"must name folders that hold manifest\.json"):
        read_package(tmp_path)


def test_two_releases_of_a_family_are_refused(tmp_path: Path):
    folders = [write_classifier(tmp_path / str(n), release=n + 1) for n in range(2)]
    with pytest.raises(ConfigurationError, match="two releases of tiny-class"):
        load_entries(folders, InferenceSettings())


def test_a_model_that_computes_something_else_here_is_refused():
    package = classifier_package()
    golden = package.golden
    wrong = GoldenVectors(
        golden.windows, golden.times, golden.features, golden.output + np.float32(1), golden.labels
    )
    package = type(package)(package.manifest, package.digest, package.variant, package.model, wrong)
    with pytest.raises(PackageError, match="computes something else here"):
        load_entry(package, InferenceSettings())


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (b"", "cannot load"),
        (b"\x00" * 100, "cannot load"),
        (classifier_model()[:-40], "cannot load"),
        (classifier_model(domain="com.example.evil"), "cannot load"),
        (classifier_model(external=True), "cannot load"),
    ],
    ids=["empty", "noise", "torn", "custom domain", "external data"],
)
def test_a_model_that_must_not_be_run_is_refused(model, why):
    with pytest.raises(PackageError, match=why):
        _backend(model)


@pytest.mark.parametrize(
    "variant",
    [
        {"inputs": (TensorSpec("other", "float32", (-1, FEATURES)),)},
        {"outputs": (TensorSpec("other", "float32", (-1, len(LABELS))),)},
        {"inputs": (TensorSpec("features", "int8", (-1, FEATURES)),)},
    ],
)
def test_a_model_that_is_not_the_manifests_is_refused(variant):
    with pytest.raises(PackageError, match="the manifest says"):
        _backend(classifier_model(), **variant)


def test_the_batch_axis_is_the_manifests_and_not_a_guess():
    outputs = (TensorSpec("logits", "float32", (len(LABELS), -1)),)
    backend = _backend(classifier_model(transposed=True), outputs=outputs)
    features = np.random.default_rng(1).normal(size=(5, FEATURES)).astype(np.float32)
    assert np.allclose(backend.run(features), features @ weights() + BIG_BIAS, atol=1e-5)


def test_a_wrong_number_of_rows_fails_loudly():
    backend = _backend(classifier_model(transposed=True))
    with pytest.raises(ModelFailed, match="made 3 rows of 5"):
        backend.run(np.zeros((5, FEATURES), dtype=np.float32))


def test_a_provider_that_is_not_there_is_said_with_those_that_are():
    package = classifier_package()
    with pytest.raises(PackageError, match="CPUExecutionProvider"):
        OnnxBackend(package.model, package.variant, wish="tensorrt", threads=1)
