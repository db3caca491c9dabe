import numpy as np
import pytest

from contract.golden import decode_golden
from edge_agent.errors import ConfigurationError, ModelError
from edge_agent.inference.onnx import OnnxModel, runtime_version
from edge_agent.inference.package import read_package
from edge_agent.inference.scorer import Scorer
from tests.fakes.packages import tiny_scorer, write_package, zero_model


def test_a_window_gets_label_score_confidence_and_features(tmp_path):
    scorer = tiny_scorer(tmp_path)
    scores = scorer.score(np.array([[[1.0], [2.0], [3.0]], [[9.0]] * 3]), np.zeros((2, 3)))
    assert [scorer.labels[n] for n in scores.labels] == ["normal", "anomaly"]
    assert scores.scores.tolist() == [2.0, 9.0]
    assert ((scores.confidence > 0.5) & (scores.confidence <= 1)).all()
    assert scores.usable.all()
    assert scores.in_domain.all()
    assert scores.features.tolist() == [[1, 2, 3], [9, 9, 9]]
    assert (scorer.family, scorer.release, scorer.shape) == ("tiny", 7, (3, 1))


def test_a_windows_score_does_not_depend_on_its_batch(tmp_path):
    scorer = tiny_scorer(tmp_path)
    values = np.random.default_rng(1).normal(size=(50, 3, 1))
    whole = scorer.score(values, np.zeros((50, 3)))
    alone = [scorer.score(values[n : n + 1], np.zeros((1, 3))).scores[0] for n in range(50)]
    assert whole.scores.tolist() == alone


def test_a_window_outside_of_the_training_range_is_known(tmp_path):
    scorer = tiny_scorer(tmp_path, envelope=5.0)
    scores = scorer.score(np.array([[[1.0]] * 3, [[6.0]] * 3]), np.zeros((2, 3)))
    assert scores.in_domain.tolist() == [True, False]


def test_a_window_with_a_hole_is_not_usable_and_its_neighbour_is(tmp_path):
    values = np.array([[[1.0], [np.nan], [3.0]], [[1.0]] * 3])
    assert tiny_scorer(tmp_path).score(values, np.zeros((2, 3))).usable.tolist() == [False, True]


def test_the_models_channels_are_found_among_the_streams(tmp_path):
    scorer = tiny_scorer(tmp_path, channels=("a", "b"))
    assert scorer.columns(("x", "b", "a"), stream="s").tolist() == [2, 1]
    with pytest.raises(ConfigurationError, match=r"'s'.*'tiny' needs the channels a, b.*: b"):
        scorer.columns(("a", "c"), stream="s")


def test_a_model_that_does_not_compute_its_golden_vectors_is_refused(tmp_path):
    package = read_package(write_package(tmp_path))
    golden = package.golden
    wrong = type(package)(
        manifest=package.manifest,
        digest=package.digest,
        variant=package.variant,
        model=package.model,
        golden=type(golden)(
            golden.windows, golden.times, golden.features, golden.output + 1, golden.labels
        ),
    )
    with pytest.raises(ModelError, match="release 7 does not compute on this device"):
        Scorer(wrong)


def test_bytes_that_are_no_model_are_refused(tmp_path):
    variant = read_package(write_package(tmp_path)).variant
    for content in (b"", b"not a model", zero_model(3)[:-20]):
        with pytest.raises(ModelError, match="device"):
            OnnxModel(content, variant)


def test_a_model_of_another_width_fails_as_a_model_error(tmp_path):
    variant = read_package(write_package(tmp_path)).variant
    model = OnnxModel(zero_model(3), variant)
    assert model.run(np.ones((4, 3), dtype=np.float32)).shape == (4, 3)
    with pytest.raises(ModelError, match="the model failed"):
        model.run(np.ones((4, 5), dtype=np.float32))


def test_the_runtime_says_its_version():
    assert runtime_version().count(".") == 2


def test_a_package_is_read_whole(tmp_path):
    package = read_package(write_package(tmp_path))
    assert package.model == zero_model(3)
    assert decode_golden((tmp_path / "golden.msgpack").read_bytes()).labels.tolist() == [0, 1]


def test_a_folder_that_is_no_package_is_named(tmp_path):
    with pytest.raises(
        ModelError, match=r"cannot read the model package .*nowhere.*manifest\.json"
    ):
        read_package(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["device.onnx", "golden.msgpack", "manifest.json"])
@pytest.mark.parametrize("damage", ["gone", "longer", "flipped", "empty"])
def test_a_damaged_package_is_refused(tmp_path, name, damage):
    file = write_package(tmp_path) / name
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    elif damage == "longer":
        file.write_bytes(content + b"x" * 5_000_000)
    elif damage == "flipped":
        file.write_bytes(content[:50] + bytes([content[50] ^ 255]) + content[51:])
    else:
        file.write_bytes(b"")
    with pytest.raises(ModelError, match=str(tmp_path)):
        read_package(tmp_path)
