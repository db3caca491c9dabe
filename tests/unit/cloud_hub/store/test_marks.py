"""Marks agree with a plain set of numbers, whatever comes in whatever order."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_hub.store.marks import MAX_RANGES, Marks

_spans = st.tuples(st.integers(1, 60), st.integers(0, 30)).map(lambda s: (s[0], s[0] + s[1]))
_thinned = st.tuples(_spans, st.sampled_from([2, 4, 8])).map(lambda s: (*s[0], s[1]))
_steps = st.lists(
    st.tuples(
        st.sets(st.integers(1, 80), max_size=10),
        st.lists(_spans, max_size=2),
        st.lists(_thinned, max_size=2),
    ),
    max_size=6,
)


def _settled(covered: list[tuple[int, int]], thinned: list[tuple[int, int, int]]) -> set[int]:
    whole = {n for first, last in covered for n in range(first, last + 1)}
    return whole | {n for first, last, by in thinned for n in range(first, last + 1) if n % by}


@given(_steps)
def test_marks_are_the_set_of_what_is_settled(steps):
    marks, model, top = Marks(), set(), 0
    for rows, covered, thinned in steps:
        marks = marks.add(rows=rows, covered=covered, thinned=thinned)
        model |= rows | _settled(covered, thinned)
        top = max([top, *rows])
        applied = next(n for n in range(200) if n + 1 not in model)
        assert marks.applied == applied
        assert [n in marks for n in range(1, 130)] == [n in model for n in range(1, 130)]
        missing = [n for a, b in marks.missing(limit=10**6) for n in range(a, b + 1)]
        assert missing == [n for n in range(applied + 1, top) if n not in model]


@given(_steps)
def test_the_order_of_adding_does_not_matter(steps):
    forward, backward = Marks(), Marks()
    for rows, covered, thinned in steps:
        forward = forward.add(rows=rows, covered=covered, thinned=thinned)
    for rows, covered, thinned in reversed(steps):
        backward = backward.add(rows=rows, covered=covered, thinned=thinned)
    assert forward.applied == backward.applied
    assert forward.missing(limit=1000) == backward.missing(limit=1000)


def test_a_thinned_stretch_of_any_length_is_one_entry_and_its_kept_rows_are_awaited():
    marks = Marks().add(thinned=[(1, 1_000_000, 2)])
    assert (marks.applied, marks.missing(limit=10)) == (1, ())
    marks = marks.add(rows=[2, 4, 8])
    assert marks.applied == 5
    assert marks.missing(limit=10) == ((6, 6),)
    assert len(marks.thinned) == 1


def test_a_gap_alone_does_not_make_earlier_rows_missing():
    assert Marks().add(covered=[(100, 200)]).missing(limit=10) == ()


def test_the_ranges_that_are_kept_are_bounded_and_the_lowest_stay():
    marks = Marks().add(rows=range(2, 4 * MAX_RANGES, 2))
    assert len(marks.ranges) == MAX_RANGES
    assert marks.ranges[0] == (2, 2)
    assert marks.add(rows=[1]).applied == 2


def test_only_the_lowest_missing_ranges_are_told():
    marks = Marks().add(rows=range(2, 100, 2))
    assert marks.missing(limit=3) == ((1, 1), (3, 3), (5, 5))


STRETCH = 9_999_999


@pytest.mark.parametrize("strides", [(2, 3, 5, 7, 11, 13, 17, 19, 23), (2, 4, 8, 1 << 20)])
def test_long_stretches_of_many_strides_cost_no_time(strides):
    hostile = [(n, n + STRETCH, by) for n in range(1, 21) for by in strides]
    started = time.thread_time()
    marks = Marks().add(rows=[STRETCH], thinned=hostile)
    marks.missing(limit=64)
    assert STRETCH - 1 in marks or marks.applied < STRETCH - 1
    assert time.thread_time() - started < 0.2


def test_of_stretches_that_overlap_the_largest_stride_holds():
    marks = Marks().add(thinned=[(1, 100, 2), (41, 60, 8), (90, 120, 4)])
    assert marks.thinned == ((1, 40, 2), (41, 60, 8), (61, 89, 2), (90, 120, 4))


def test_a_stride_that_is_no_power_of_two_settles_nothing():
    assert Marks().add(thinned=[(1, 100, 3), (1, 100, -2)]) == Marks()


def test_the_stretches_that_are_kept_are_bounded():
    marks = Marks().add(thinned=[(n, n + 1, 4) for n in range(2, 100_000, 4)])
    assert len(marks.thinned) <= MAX_RANGES
