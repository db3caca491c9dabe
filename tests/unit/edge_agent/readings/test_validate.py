import numpy as np

from edge_agent.readings.validate import Limits, check_values

LIMITS = Limits.of([(0.0, 10.0), (None, None), (None, 5.0)])


def test_an_impossible_value_is_rejected_and_its_neighbours_are_kept():
    values = np.array([[11.0, 1e9, 5.0], [10.0, -1e9, 5.1], [0.0, 0.0, -1e15]])
    checked = check_values(values, LIMITS)
    assert np.isnan(checked.values).tolist() == [
        [True, False, False],
        [False, False, True],
        [False, False, False],
    ]
    assert checked.out_of_range.tolist() == np.isnan(checked.values).tolist()
    assert not np.isnan(values).any(), "the input is left as it was"


def test_a_hole_is_not_out_of_range():
    checked = check_values(np.full((2, 3), np.nan), LIMITS)
    assert not checked.out_of_range.any()
