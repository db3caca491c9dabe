import dataclasses

import numpy as np
import pytest

from contract.golden import decode_golden, encode_golden, golden_problems
from contract.manifest import ManifestError
from tests.unit.contract.package_samples import anomaly_variant, golden_vectors, manifest

GOLDEN = golden_vectors()


def problems(run, golden=GOLDEN):
    return list(golden_problems(manifest(), anomaly_variant(), golden, run))


def test_golden_vectors_survive_their_blob_bit_for_bit():
    back = decode_golden(encode_golden(GOLDEN))
    for field in dataclasses.fields(GOLDEN):
        assert getattr(back, field.name).tobytes() == getattr(GOLDEN, field.name).tobytes()


def test_a_right_installation_has_no_problems():
    assert problems(np.zeros_like) == []
    assert problems(lambda features: np.full_like(features, 0.009)) == []


def test_a_wrong_output_is_told_with_its_size():
    assert problems(lambda features: np.full_like(features, 0.02)) == [
        "the output differs by 0.02; at most 0.01"
    ]
    assert "nan" in problems(lambda features: np.full_like(features, np.nan))[0]
    assert problems(lambda features: features[:1]) == ["the output has shape (1, 3), golden (2, 3)"]


def test_another_label_is_a_problem_of_its_own():
    found = problems(np.asarray)
    assert found[-1] == "1 of 2 golden windows get another label"


def test_features_that_drifted_apart_are_found():
    golden = dataclasses.replace(GOLDEN, features=GOLDEN.features + np.float32(0.001))
    assert problems(np.zeros_like, golden) == ["features differ by 0.001; at most 0.0001"]


def test_parts_of_different_length_are_refused():
    golden = dataclasses.replace(GOLDEN, labels=GOLDEN.labels[:1])
    with pytest.raises(ManifestError, match="different lengths"):
        decode_golden(encode_golden(golden))
