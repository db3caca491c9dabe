import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.calibration import Temperature
from contract.manifest import ManifestError
from contract.scoring import judge
from tests.unit.contract.package_samples import anomaly_variant, class_variant


def test_an_anomaly_is_a_reconstruction_error_above_the_threshold():
    features = np.array([[0, 0, 0], [3, 3, 3], [3, 3, 3.1]], dtype=np.float32)
    judged = judge(anomaly_variant(), features=features, output=np.zeros((3, 3), np.float32))
    assert judged.labels.tolist() == [0, 0, 1]
    assert judged.scores == pytest.approx([0, 3, 9.1 / 3], rel=1e-6)
    assert judged.confidence[1] == pytest.approx(0.5)


def test_the_error_is_against_the_features_and_not_their_clipped_form():
    features = np.full((1, 3), 500.0, dtype=np.float32)
    judged = judge(anomaly_variant(), features=features, output=np.full((1, 3), 4.0))
    assert judged.scores.tolist() == [496.0]


def test_a_class_is_the_largest_logit_and_its_confidence_the_calibrated_share():
    variant = class_variant(calibration=Temperature(2.0))
    judged = judge(
        variant, features=np.zeros((2, 3), np.float32), output=np.array([[0, 2], [4, 0]])
    )
    assert judged.labels.tolist() == [1, 0]
    assert judged.confidence == pytest.approx([1 / (1 + np.exp(-1)), 1 / (1 + np.exp(-2))])
    assert judged.scores.tolist() == judged.confidence.tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_a_judgement_does_not_depend_on_its_batch_bit_for_bit(seed, size):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(size, 3)).astype(np.float32)
    logits = rng.normal(size=(size, 2)).astype(np.float32)
    for variant, output in ((anomaly_variant(), features[::-1]), (class_variant(), logits)):
        together = judge(variant, features=features, output=output)
        for i in range(size):
            alone = judge(variant, features=features[i : i + 1], output=output[i : i + 1])
            assert alone.labels[0] == together.labels[i]
            assert alone.scores.tobytes() == together.scores[i : i + 1].tobytes()
            assert alone.confidence.tobytes() == together.confidence[i : i + 1].tobytes()


def test_an_empty_batch_is_judged_to_nothing():
    judged = judge(
        anomaly_variant(), features=np.empty((0, 3), np.float32), output=np.empty((0, 3))
    )
    assert len(judged.labels) == len(judged.scores) == len(judged.confidence) == 0


def test_a_variant_without_its_threshold_is_refused():
    with pytest.raises(ManifestError, match="needs quantiles and a threshold"):
        judge(
            anomaly_variant(threshold=None),
            features=np.zeros((1, 3), np.float32),
            output=np.zeros((1, 3)),
        )
