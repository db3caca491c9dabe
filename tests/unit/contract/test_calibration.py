import numpy as np
import pytest

from contract.calibration import (
    Quantiles,
    Temperature,
    anomaly_confidence,
    probabilities,
    rarity,
)

QUANTILES = Quantiles(
    scores=(0.0, 1.0, 2.0, 3.0), tails=(1.0, 0.1, 0.01, 0.001), decades_per_unit=2.0
)


def test_probabilities_sum_to_one_and_a_higher_temperature_softens_them():
    logits = np.array([[2.0, 0.0, -1.0], [1000.0, -1000.0, 0.0]])
    sharp, soft = (probabilities(Temperature(t), logits) for t in (1.0, 4.0))
    assert sharp.sum(axis=1) == pytest.approx([1, 1])
    assert soft[0, 0] < sharp[0, 0]
    assert sharp[0] == pytest.approx(np.exp(logits[0]) / np.exp(logits[0]).sum())


def test_rarity_counts_decades_between_and_beyond_the_knots():
    scores = np.array([-1.0, 0.0, 0.5, 2.0, 3.0, 4.0])
    assert rarity(QUANTILES, scores) == pytest.approx([0, 0, 0.5, 2, 3, 5])


def test_confidence_is_a_half_at_the_threshold_and_grows_on_both_sides():
    scores = np.array([0.0, 1.0, 2.0, 2.5, 3.0, 3.5, 9.0])
    confidence = anomaly_confidence(QUANTILES, scores, threshold=2.5)
    assert confidence[3] == pytest.approx(0.5)
    assert np.all(np.diff(confidence[:4]) < 0)
    assert np.all(np.diff(confidence[3:]) > 0)
    assert np.all((confidence >= 0.5) & (confidence <= 1.0))


def test_one_decade_from_the_threshold_is_odds_of_ten():
    confidence = anomaly_confidence(QUANTILES, np.array([1.0, 3.0]), threshold=2.0)
    assert confidence == pytest.approx([10 / 11, 10 / 11])


def test_an_enormous_score_is_certain_and_no_error():
    confidence = anomaly_confidence(QUANTILES, np.array([1e12]), threshold=2.0)
    assert confidence.tolist() == [1.0]
