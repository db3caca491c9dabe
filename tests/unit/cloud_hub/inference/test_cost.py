"""The forecast follows what was measured, and one hiccup does not spoil it."""

import math

from cloud_hub.inference.cost import SAFETY, CostModel


def _truth(rows: int) -> float:
    return 0.002 + 0.0005 * rows


def test_the_fit_finds_fixed_and_row_cost():
    cost = CostModel()
    for rows in (1, 2, 4, 8):
        cost.seed(rows, _truth(rows))
    assert math.isclose(cost.predict(16), SAFETY * _truth(16), rel_tol=1e-6)
    assert cost.rows_within(SAFETY * _truth(16) + 1e-9) == 16


def test_a_diet_of_one_size_keeps_the_slope():
    cost = CostModel()
    for rows in (1, 8):
        cost.seed(rows, _truth(rows))
    for _ in range(200):
        cost.record(1, _truth(1))
    assert math.isclose(cost.predict(8), SAFETY * _truth(8), rel_tol=0.05)


def test_one_hiccup_is_no_trend_but_a_slower_machine_is():
    cost = CostModel()
    for rows in (1, 8):
        cost.seed(rows, _truth(rows))
    for _ in range(20):
        cost.record(4, _truth(4))
    before = cost.predict(4)
    cost.record(4, 10.0)
    assert cost.predict(4) < 2 * before
    for _ in range(64):
        cost.record(4, 3 * _truth(4))
    assert cost.predict(4) > 2.5 * before


def test_without_samples_nothing_costs_anything():
    assert CostModel().predict(100) == 0.0
