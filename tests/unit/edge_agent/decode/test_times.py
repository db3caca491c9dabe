import math

import pytest

from edge_agent.decode.times import parse_time

MOMENT = 1796026502.0  # 2026-11-30T08:15:02Z


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (1796026502, MOMENT),
        (1796026502.5, MOMENT + 0.5),
        (1796026502000, MOMENT),
        (1796026502000000, MOMENT),
        (1796026502000000000, MOMENT),
        (0, 0.0),
        (12.5, 12.5),
        (99_999_999_999, 99_999_999_999.0),
        (100_000_000_000, 100_000_000.0),
        (99_999_999_999_999, 99_999_999_999.999),
        (100_000_000_000_000, 100_000_000.0),
        (100_000_000_000_000_000, 100_000_000.0),
    ],
)
def test_numbers_are_read_by_magnitude(given: object, seconds: float):
    assert parse_time(given) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1796026502", MOMENT),
        (" 1796026502.25 ", MOMENT + 0.25),
        ("1796026502000", MOMENT),
        ("2026-11-30T08:15:02Z", MOMENT),
        ("2026-11-30 08:15:02", MOMENT),
        ("2026-11-30T08:15:02", MOMENT),
        ("2026-11-30T08:15:02z", MOMENT),
        ("2026-11-30T10:15:02+0200", MOMENT),
        ("2026-11-30T10:15:02+02:00", MOMENT),
        ("2026-11-30T10:15:02+02", MOMENT),
        ("2026-11-30 02:45:02 -0530", MOMENT),
        ("2026-11-30T08:15:02.311Z", MOMENT + 0.311),
        ("2026-11-30T08:15:02,311Z", MOMENT + 0.311),
        ("2026-11-30T08:15:02.775023242+00:00", MOMENT + 0.775023242),
        ("2026-11-30T08:15", MOMENT - 2),
        ("1970-01-01T00:00:00", 0.0),
        ("2099-01-01T00:00:00Z", 4070908800.0),
    ],
)
def test_text_holds_a_number_or_iso_8601_and_without_a_zone_it_is_utc(text: str, seconds: float):
    assert parse_time(text) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    "given",
    [
        None,
        True,
        [],
        {},
        "",
        "soon",
        "2026-13-01T00:00:00",
        "2026-11-31T00:00:00",
        "2026-11-30",
        "2026-11-30T25:00:00",
        "2026-11-30T08:15:02+9900",
        "2026-11-30T08:15:02" + " " * 50 + "rubbish",
        "0000-00-00T00:00:00",
        "NaN",
        "Infinity",
        "1_796_026_502",
        "1e400",
        math.nan,
        math.inf,
        1e20,
        10**400,
        "9" * 70,
    ],
)
def test_what_is_no_time_is_nan(given: object):
    assert math.isnan(parse_time(given))


@pytest.mark.parametrize("number", [1796026502123456789, 179602650212345678, 9007199254740993])
def test_an_integer_and_its_float_are_the_same_time(number: int):
    assert parse_time(number) == parse_time(float(number))
