import numpy as np
import pytest

from contract.calibration import calibration_problems, rarity
from quantize.calibrate import fit_quantiles, fit_temperature, fit_threshold


def test_an_over_confident_classifier_is_softened_to_its_true_rate():
    rng = np.random.default_rng(3)
    share = np.array([0.7, 0.3])
    labels = rng.choice(2, size=4000, p=share)
    logits = np.tile(np.log(share) * 5.0, (4000, 1))
    assert fit_temperature(logits, labels).t == pytest.approx(5.0, rel=0.15)


def test_a_faultless_classifier_is_not_made_surer_than_it_is():
    labels = np.arange(40) % 2
    logits = np.where(np.eye(2)[labels] == 1, 3.0, -3.0)
    assert fit_temperature(logits, labels).t == pytest.approx(1.0, abs=1e-3)


def test_quantiles_tell_how_rare_a_score_was():
    scores = np.random.default_rng(3).exponential(size=2000)
    fitted = fit_quantiles(scores)
    assert list(calibration_problems(fitted)) == []
    seen = rarity(fitted, np.quantile(scores, [0.5, 0.9, 0.99]))
    assert seen == pytest.approx([np.log10(2), 1, 2], abs=0.02)
    beyond = rarity(fitted, np.array([scores.max() + 1, scores.max() + 2]))
    assert np.diff(beyond) == pytest.approx([fitted.decades_per_unit])


@pytest.mark.parametrize("count", [2, 3, 10, 389])
def test_few_windows_make_few_knots_but_valid_ones(count):
    fitted = fit_quantiles(np.linspace(0.1, 1.0, count))
    assert list(calibration_problems(fitted)) == []
    assert fitted.tails[-1] == pytest.approx(1 / (count + 1))


def test_the_threshold_is_a_margin_above_the_highest_normal_score():
    assert fit_threshold(np.array([0.1, 0.8, 0.3]), margin=1.25) == pytest.approx(1.0)
