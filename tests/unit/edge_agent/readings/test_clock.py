from dataclasses import replace

import numpy as np
import pytest

from contract.messages import Clock
from contract.trust import AHEAD_S, BUILD_S, ReadingFlag
from edge_agent.clock import RecordedClock, SystemClock
from edge_agent.readings.clock import stamped, trusted_times
from tests.fakes.batches import START_S, reading_batch

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
    times, wrong, _ = trusted_times(np.array([given]), ARRIVAL, "checked")
    assert times.tolist() == [used]
    assert wrong.tolist() == [untrusted]


def test_a_recorded_time_is_used_as_it_is():
    given = np.array([0.0, 4070908800.0, np.nan])
    times, wrong, _ = trusted_times(given, np.full(3, START_S), "recorded")
    assert times.tolist() == [0.0, 4070908800.0, START_S]
    assert not wrong.any()


def test_in_arrival_mode_the_payloads_time_is_ignored():
    given = np.array([0.0, START_S - 1])
    times, wrong, _ = trusted_times(given, np.full(2, START_S), "arrival")
    assert times.tolist() == [START_S, START_S]
    assert not wrong.any()


def test_one_device_in_the_future_moves_nobody_elses_times():
    given = np.array([4070908800.0, START_S - 1])
    times, wrong, _ = trusted_times(given, np.full(2, START_S), "checked")
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
    used, untrusted, own = trusted_times(given, arrivals, "checked")
    assert used.tolist() == [1.79e9, 60.0, 60.0]
    assert untrusted.tolist() == [False, True, False]
    np.testing.assert_array_equal(own, [1.79e9, 12.0, np.nan])


def test_a_time_that_was_replaced_is_kept_beside_the_arrival():
    given = np.array([4070908800.0, START_S - 1, np.nan, 0.0])
    own = trusted_times(given, np.full(4, START_S), "checked").own
    np.testing.assert_array_equal(own, [4070908800.0, np.nan, np.nan, 0.0])


@pytest.mark.parametrize("mode", ["recorded", "arrival"])
def test_where_nobody_checks_nothing_is_kept_beside(mode):
    given = np.array([4070908800.0, 0.0])
    assert np.isnan(trusted_times(given, np.full(2, START_S), mode).own).all()


def _at(wall_s: float, *, mono_s: float, trusted: bool) -> Clock:
    return Clock("b", mono_s, wall_s, trusted)


def test_readings_under_an_untrusted_clock_say_so():
    batch = reading_batch([0, 1], [1, 2])
    found = stamped(batch, _at(START_S, mono_s=START_S, trusted=False))
    assert found.flags.tolist() == [ReadingFlag.CLOCK_UNTRUSTED] * 2
    assert found.times_s.tolist() == batch.times_s.tolist()


def test_a_steady_trusted_clock_changes_nothing():
    batch = reading_batch([0, 1], [1, 2])
    assert stamped(batch, _at(START_S + 2, mono_s=START_S + 2.5, trusted=True)) is batch


def test_arrivals_before_the_clock_was_set_are_told_by_the_right_clock():
    batch = reading_batch([0, 0], [1, 2], times_s=[100.0, 101.0])
    own = replace(batch, times_s=np.array([100.0, 1.79e9]))
    found = stamped(own, _at(START_S, mono_s=102.0, trusted=True))
    assert found.arrivals_s.tolist() == [START_S - 2, START_S - 1]
    assert found.times_s.tolist() == [START_S - 2, 1.79e9]
    assert found.flags.tolist() == [ReadingFlag.TIME_REPAIRED] * 2


def test_arrivals_before_a_clock_jumped_under_an_untrusted_stamp_are_told_by_its_clock():
    batch = reading_batch([0, 0], [1, 2], times_s=[START_S - 86400.0, START_S - 86399.0])
    batch = replace(batch, arrivals_ns=np.array([100, 101]) * 1_000_000_000)
    found = stamped(batch, _at(START_S, mono_s=102.0, trusted=False))
    assert found.arrivals_s.tolist() == [START_S - 2, START_S - 1]
    assert found.times_s.tolist() == [START_S - 2, START_S - 1]
    assert found.flags.tolist() == [ReadingFlag.CLOCK_UNTRUSTED] * 2
