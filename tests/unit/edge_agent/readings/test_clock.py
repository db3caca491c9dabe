import numpy as np
import pytest

from edge_agent.clock import BUILD_S, RecordedClock, SystemClock
from edge_agent.readings.clock import AHEAD_S, trusted_times
from tests.fakes.batches import START_S

ARRIVAL = np.full(1, START_S)


@pytest.mark.parametrize(
    ("given", "used", "untrusted"),
    [
        (START_S - 10, START_S - 10, False),
        (START_S + AHEAD_S, START_S + AHEAD_S, False),
        (START_S + AHEAD_S + 1, START_S, True),
        (BUILD_S, BUILD_S, False),
        (BUILD_S - 1, START_S, True),
        (0.0, START_S, True),
        (-5e9, START_S, True),
        (4070908800.0, START_S, True),
        (np.nan, START_S, False),
    ],
)
def test_an_implausible_time_is_replaced_by_the_arrival_and_flagged(given, used, untrusted):
    times, wrong = trusted_times(np.array([given]), ARRIVAL, "checked")
    assert times.tolist() == [used]
    assert wrong.tolist() == [untrusted]


def test_a_recorded_time_is_used_as_it_is():
    given = np.array([0.0, 4070908800.0, np.nan])
    times, wrong = trusted_times(given, np.full(3, START_S), "recorded")
    assert times.tolist() == [0.0, 4070908800.0, START_S]
    assert not wrong.any()


def test_in_arrival_mode_the_payloads_time_is_ignored():
    given = np.array([0.0, START_S - 1])
    times, wrong = trusted_times(given, np.full(2, START_S), "arrival")
    assert times.tolist() == [START_S, START_S]
    assert not wrong.any()


def test_one_device_in_the_future_moves_nobody_elses_times():
    given = np.array([4070908800.0, START_S - 1])
    times, wrong = trusted_times(given, np.full(2, START_S), "checked")
    assert times.tolist() == [START_S, START_S - 1]
    assert wrong.tolist() == [True, False]


def test_a_recorded_clock_stands_and_never_goes_back():
    clock = RecordedClock()
    clock.advance(5.0)
    clock.advance(3.0)
    assert (clock.wall_s(), clock.mono_ns()) == (5.0, 5_000_000_000)
    assert clock.stamp() == clock.stamp()


def test_the_system_clock_says_what_it_is():
    clock = SystemClock()
    first, second = clock.stamp(), clock.stamp()
    assert first.boot == second.boot != ""
    assert second.mono_s >= first.mono_s
    assert isinstance(first.trusted, bool)


def test_while_the_device_itself_is_in_1970_a_sensors_plausible_time_is_believed():
    given = np.array([1.79e9, 12.0, np.nan])
    arrivals = np.array([60.0, 60.0, 60.0])
    used, untrusted = trusted_times(given, arrivals, "checked")
    assert used.tolist() == [1.79e9, 60.0, 60.0]
    assert untrusted.tolist() == [False, True, False]
