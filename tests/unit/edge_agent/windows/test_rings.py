import numpy as np
import pytest

from edge_agent.windows.rings import SLACK, Rings, fill_holes, ranks
from tests.fakes.batches import START_S, reading_batch


def rings(window: int, hop: int, channels: int = 1) -> Rings:
    return Rings(kind=4, window=window, hop=hop, channels=channels)


def test_a_window_falls_due_every_hop_once_there_are_enough_readings():
    (due,) = rings(3, 2).push(reading_batch([0] * 8, np.arange(8)))
    assert due.kind == 4
    assert due.numbers.tolist() == [3, 5, 7]
    assert due.last.tolist() == [2, 4, 6]
    assert due.values[:, :, 0].tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    assert due.times_s[0].tolist() == [START_S, START_S + 1, START_S + 2]
    assert due.arrivals_ns[0] == round((START_S + 2) * 1e9)


def test_windows_of_several_streams_come_in_the_order_of_their_last_readings():
    (due,) = rings(2, 1).push(reading_batch([1, 0, 1, 0], [10, 20, 11, 21]))
    assert due.slots.tolist() == [1, 0]
    assert due.values[:, :, 0].tolist() == [[10, 11], [20, 21]]


def test_a_hop_larger_than_the_window_leaves_readings_out():
    (due,) = rings(2, 5).push(reading_batch([0] * 9, np.arange(9)))
    assert due.values[:, :, 0].tolist() == [[0, 1], [5, 6]]


def test_a_burst_of_one_stream_is_gathered_before_it_is_overwritten():
    count = 5 * SLACK + 7
    found = rings(3, 1).push(reading_batch([0] * count, np.arange(count)))
    windows = np.concatenate([due.values[:, :, 0] for due in found])
    assert windows.tolist() == [[n, n + 1, n + 2] for n in range(count - 2)]


def test_an_empty_batch_leads_to_nothing():
    assert rings(3, 1).push(reading_batch([], np.zeros((0, 1)))) == []


def test_a_stream_that_was_never_seen_has_an_empty_tail():
    count, times, values = rings(3, 1).tail(9)
    assert (count, len(times), len(values)) == (0, 0, 0)


def test_a_later_stream_leaves_the_earlier_ones_as_they_were():
    one = rings(2, 1)
    one.push(reading_batch([0, 0], [1, 2]))
    one.push(reading_batch([500], [9]))
    (due,) = one.push(reading_batch([0], [3]))
    assert due.values[:, :, 0].tolist() == [[2, 3]]


@pytest.mark.parametrize(
    ("slots", "expected"),
    [([3], [0]), ([3, 5, 3], [0, 0, 1]), ([1, 1, 1], [0, 1, 2]), ([2, 1, 2, 1], [0, 0, 1, 1])],
)
def test_ranks_count_the_equal_ones_before(slots, expected):
    assert ranks(np.array(slots, dtype=np.int32)).tolist() == expected


def test_holes_are_held_at_the_last_value_and_their_share_is_told():
    nan = np.nan
    values = np.array([[[nan, 1], [2, nan], [nan, nan], [4, 5]]])
    filled, share = fill_holes(values)
    assert filled[0].T.tolist() == [[2, 2, 2, 4], [1, 1, 1, 5]]
    assert share.tolist() == [0.5]
    assert np.isnan(values[0, 0, 0]), "the input is left as it was"


def test_a_channel_without_any_value_stays_a_hole():
    filled, share = fill_holes(np.array([[[np.nan], [np.nan]], [[1.0], [2.0]]]))
    assert np.isnan(filled[0]).all()
    assert share.tolist() == [1.0, 0.0]


def test_a_whole_window_is_not_copied():
    values = np.ones((2, 3, 1))
    filled, share = fill_holes(values)
    assert filled is values
    assert share.tolist() == [0.0, 0.0]
