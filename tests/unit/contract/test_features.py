import math

import msgspec
import numpy as np
import pytest

from contract.features import (
    FeatureError,
    FeatureSpec,
    Profile,
    Statistics,
    TimeOfDay,
    Values,
    compile_features,
    feature_count,
    feature_digest,
    feature_names,
    inside_envelope,
    validate_features,
)

SPEC = FeatureSpec(channels=("a", "b"), window=3, hop=1, steps=(Values(),))
WINDOW = np.array([[[1.0, 10.0], [2.0, 30.0], [6.0, 20.0]]])
TIMES = np.array([[0.0, 3600.0, 7200.0]])


def changed(**fields):
    return msgspec.structs.replace(SPEC, **fields)


def test_values_come_row_by_row_with_names_that_say_which():
    assert compile_features(SPEC)(WINDOW, TIMES).tolist() == [[1, 10, 2, 30, 6, 20]]
    assert feature_names(SPEC) == ("a[-2]", "b[-2]", "a[-1]", "b[-1]", "a[0]", "b[0]")


def test_a_profile_by_hour_is_subtracted_before_the_scale():
    table = tuple((float(hour), 0.0) for hour in range(24))
    step = Values(profile=Profile(period="hour_of_day", table=table), scale=(2.0, 10.0))
    row = compile_features(changed(steps=(step,)))(WINDOW, TIMES + 86400 * 5)
    assert row.tolist() == [[0.5, 1, 0.5, 3, 2, 2]]


def test_hour_zero_of_the_week_is_monday_midnight_utc():
    table = tuple((float(hour), 0.0) for hour in range(168))
    step = Values(profile=Profile(period="hour_of_week", table=table))
    monday = 4 * 86400.0
    row = compile_features(changed(steps=(step,)))(np.zeros((1, 3, 2)), TIMES + monday - 3600)
    assert row[0, ::2].tolist() == [-167, 0, -1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mean", np.mean),
        ("std", np.std),
        ("min", np.min),
        ("max", np.max),
        ("range", np.ptp),
        ("median", np.median),
        ("iqr", lambda x: np.quantile(x, 0.75) - np.quantile(x, 0.25)),
        ("rms", lambda x: math.sqrt(np.mean(np.square(x)))),
        ("abs_diff_mean", lambda x: np.mean(np.abs(np.diff(x)))),
    ],
)
def test_a_statistic_is_what_numpy_says(name, expected):
    windows = np.random.default_rng(1).normal(size=(5, 17, 2))
    spec = changed(window=17, steps=(Statistics(of=(name,)),))
    got = compile_features(spec)(windows, np.zeros((5, 17)))
    want = [[expected(window[:, channel]) for channel in range(2)] for window in windows]
    assert got == pytest.approx(np.array(want), rel=1e-6)
    assert feature_names(spec) == (f"{name}(a)", f"{name}(b)")


def test_one_row_has_statistics_too():
    spec = changed(window=1, steps=(Statistics(of=("std", "abs_diff_mean", "iqr")),))
    assert compile_features(spec)(WINDOW[:, :1], TIMES[:, :1]).tolist() == [[0] * 6]


def test_time_of_day_is_of_the_last_row():
    spec = changed(steps=(TimeOfDay(),))
    row = compile_features(spec)(WINDOW, np.array([[0.0, 0.0, 86400 * 3 + 21600.0]]))
    assert row[0] == pytest.approx([1.0, 0.0], abs=1e-7)


def test_steps_are_joined_then_standardised_then_clipped():
    spec = changed(
        steps=(Statistics(of=("max",)), TimeOfDay()),
        centre=(5.0, 0.0, 0.0, 0.0),
        scale=(2.0, 1.0, 1.0, 1.0),
        clip=4.0,
    )
    assert feature_count(spec) == 4
    assert compile_features(spec)(WINDOW, TIMES * 0).tolist() == [[0.5, 4.0, 0.0, 1.0]]


def test_an_empty_batch_has_no_rows_and_all_columns():
    assert compile_features(SPEC)(np.empty((0, 3, 2)), np.empty((0, 3))).shape == (0, 6)


def test_a_missing_value_stays_in_its_own_window():
    windows = np.repeat(WINDOW, 2, axis=0)
    windows[0, 1, 0] = np.nan
    spec = changed(steps=(Values(), Statistics(of=("mean", "median"))))
    rows = compile_features(spec)(windows, np.repeat(TIMES, 2, axis=0))
    assert np.isnan(rows[0]).any()
    assert not np.isnan(rows[1]).any()


@pytest.mark.parametrize("shape", [(3, 2), (1, 4, 2), (1, 3, 1)])
def test_windows_of_another_shape_are_refused(shape):
    with pytest.raises(FeatureError, match="expected"):
        compile_features(SPEC)(np.zeros(shape), np.zeros((1, 3)))


def test_times_must_belong_to_the_rows():
    with pytest.raises(FeatureError, match="times of shape"):
        compile_features(SPEC)(WINDOW, np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"channels": ()}, "1 to 256 channels"),
        ({"channels": ("a", "a")}, "named twice"),
        ({"channels": ("a", "")}, "1 to 64 characters"),
        ({"window": 0}, "window must be"),
        ({"hop": 0}, "hop must be"),
        ({"steps": ()}, "1 to 64 steps"),
        ({"steps": (Statistics(of=("mode",)),)}, "unknown statistic 'mode'; known: mean"),
        ({"steps": (Statistics(of=()),)}, r"steps\[0\]: name at least one"),
        ({"steps": (Statistics(of=("min", "min")),)}, "named twice"),
        ({"steps": (Values(scale=(1.0,)),)}, "1 numbers for 2 channels"),
        ({"steps": (Values(scale=(1.0, 0.0)),)}, "positive and finite"),
        ({"steps": (Values(profile=Profile("hour_of_day", ((0.0, 0.0),))),)}, "24 rows, not 1"),
        ({"steps": (Values(profile=Profile("hour_of_day", ((0.0,),) * 24)),)}, "one number per"),
        ({"steps": (Values(profile=Profile("hour_of_day", ((0.0, math.nan),) * 24)),)}, "finite"),
        ({"window": 65_536}, "131072 features; at most 65536"),
        ({"centre": (0.0,)}, "centre has 1 numbers for 6 features"),
        ({"scale": (1.0,) * 5 + (0.0,)}, "scale must be positive"),
        ({"scale": (1.0,) * 5 + (math.inf,)}, "finite numbers only"),
        ({"clip": -1.0}, "clip must be positive"),
        ({"envelope_low": (1.0,) * 6, "envelope_high": (0.0,) * 6}, "above envelope_high"),
    ],
)
def test_a_specification_that_means_nothing_is_refused_with_the_reason(fields, reason):
    with pytest.raises(FeatureError, match=reason):
        validate_features(changed(**fields))


def test_the_envelope_tells_what_training_never_saw():
    spec = changed(
        steps=(Statistics(of=("max",)),), envelope_low=(0.0, 0.0), envelope_high=(9.0, 40.0)
    )
    features = np.array([[5, 30], [5, 41], [-1, 30], [np.nan, 30]], dtype=np.float32)
    assert inside_envelope(spec, features).tolist() == [True, False, False, False]
    assert inside_envelope(SPEC, features).tolist() == [True] * 4


def test_the_digest_is_the_same_on_every_machine_and_in_every_release():
    spec = FeatureSpec(
        channels=("flow",),
        window=12,
        hop=1,
        steps=(Values(scale=(2.0,)), Statistics(of=("mean", "iqr")), TimeOfDay()),
        clip=8.0,
    )
    # If this changes, every package ever built is refused: add fields with defaults, never change one.
    assert (
        feature_digest(spec) == "f49c234f23e8f61236623164f06ea103460f0d0dca4f5f1538b046d5c938c2c1"
    )


def test_whole_numbers_and_floats_have_one_digest():
    assert feature_digest(changed(clip=3)) == feature_digest(changed(clip=3.0))


@pytest.mark.parametrize(
    "fields",
    [
        {"hop": 2},
        {"channels": ("a", "c")},
        {"clip": 3.0},
        {"steps": (Values(), TimeOfDay())},
        {"steps": (Statistics(of=("mean",)),)},
    ],
)
def test_any_difference_changes_the_digest(fields):
    assert feature_digest(changed(**fields)) != feature_digest(SPEC)


def test_a_field_or_step_from_the_future_is_refused_not_ignored():
    data = msgspec.json.encode(SPEC)
    for text in (data[:-1] + b',"gap_policy":"fill"}', data.replace(b'"values"', b'"spectrum"')):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=FeatureSpec)
