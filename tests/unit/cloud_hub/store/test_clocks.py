"""One trusted stamp tells every moment of its boot; a clock that jumped is several spans, the nearest holds."""

from cloud_hub.store.clocks import MAX_SPANS, Span, learn, shift_of
from contract.messages import Clock
from contract.trust import AHEAD_S, BUILD_S

NOW_S = 1_796_000_000.0


def stamp(mono_s: float, *, offset_s: float = NOW_S - 1000.0, trusted: bool = True) -> Clock:
    return Clock("b", mono_s, mono_s + offset_s, trusted)


def spans_of(*stamps: Clock) -> tuple[Span, ...]:
    return learn((), stamps, now_s=NOW_S).spans


def test_a_trusted_stamp_tells_earlier_and_later_moments():
    spans = spans_of(stamp(500.0))
    for mono_s in (1.0, 500.0, 900.0):
        assert shift_of(spans, mono_s=mono_s, wall_s=mono_s) == NOW_S - 1000.0


def test_without_a_trusted_stamp_nothing_is_known():
    assert spans_of(stamp(500.0, trusted=False)) == ()
    assert shift_of((), mono_s=1.0, wall_s=1.0) is None


def test_a_clock_that_was_right_all_the_time_is_not_moved():
    spans = spans_of(stamp(500.0))
    assert shift_of(spans, mono_s=10.0, wall_s=10.0 + NOW_S - 1000.0 + 0.9) == 0.0


def test_a_stamp_that_cannot_be_right_tells_nothing():
    early = Clock("b", 1.0, BUILD_S - 1, trusted=True)
    late = Clock("b", 1.0, NOW_S + AHEAD_S + 1, trusted=True)
    strange = Clock("b", float("nan"), NOW_S, trusted=True)
    assert spans_of(early, late, strange) == ()


def test_more_of_the_same_is_one_span_that_is_seldom_written():
    first = learn((), [stamp(10.0), stamp(20.0), stamp(30.0)], now_s=NOW_S)
    assert first.changed == (Span(10.0, 10.0, NOW_S - 1000.0),)
    again = learn(first.spans, [stamp(40.0)], now_s=NOW_S)
    assert (again.changed, again.jumped) == ((), False)
    later = learn(first.spans, [stamp(500.0)], now_s=NOW_S)
    assert (later.changed, later.jumped) == ((Span(10.0, 500.0, NOW_S - 1000.0),), False)


def test_after_a_jump_the_nearest_span_holds_and_of_two_the_later():
    lesson = learn(
        (), [stamp(10.0), stamp(100.0), stamp(200.0, offset_s=NOW_S - 5000)], now_s=NOW_S
    )
    assert lesson.jumped
    assert len(lesson.spans) == 2
    for mono_s, offset_s in ((1.0, 1000), (90.0, 1000), (150.0, 5000), (210.0, 5000)):
        assert shift_of(lesson.spans, mono_s=mono_s, wall_s=mono_s) == NOW_S - offset_s


def test_spans_are_bounded():
    stamps = [stamp(float(n), offset_s=NOW_S - 1000 - 10 * n) for n in range(3 * MAX_SPANS)]
    assert len(spans_of(*stamps)) == MAX_SPANS
