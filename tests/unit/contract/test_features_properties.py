import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.feature_steps import STATISTICS
from contract.features import (
    FeatureSpec,
    Profile,
    Statistics,
    TimeOfDay,
    Values,
    compile_features,
    feature_count,
    feature_digest,
    feature_names,
)

NUMBER = st.floats(-1e6, 1e6, allow_nan=False)


@st.composite
def specs(draw):
    channels = tuple(f"c{i}" for i in range(draw(st.integers(1, 4))))
    period, slots = draw(st.sampled_from([("hour_of_day", 24), ("hour_of_week", 168)]))
    level = draw(NUMBER)
    table = tuple((level + slot,) * len(channels) for slot in range(slots))
    scale = draw(st.none() | st.just(tuple(0.5 + i for i in range(len(channels)))))
    pool = st.sampled_from(
        [
            Values(),
            Values(profile=Profile(period=period, table=table), scale=scale),
            Statistics(of=tuple(STATISTICS)),
            Statistics(of=("mean",)),
            TimeOfDay(),
        ]
    )
    spec = FeatureSpec(
        channels=channels,
        window=draw(st.integers(1, 40)),
        hop=draw(st.integers(1, 5)),
        steps=tuple(draw(st.lists(pool, min_size=1, max_size=3))),
        clip=draw(st.none() | st.just(1000.0)),
    )
    count = feature_count(spec)
    if draw(st.booleans()):
        spec = msgspec.structs.replace(spec, centre=(0.25,) * count, scale=(1.5,) * count)
    return spec


@st.composite
def batches(draw):
    spec = draw(specs())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.integers(1, 9))
    windows = rng.normal(size=(size, spec.window, len(spec.channels))) * 10.0 ** rng.integers(-3, 4)
    times = 1.7e9 + np.cumsum(rng.uniform(0.1, 4000, size=(size, spec.window)), axis=1)
    return spec, windows, times


@given(batches())
@settings(max_examples=200)
def test_a_row_does_not_depend_on_its_batch_bit_for_bit(batch):
    spec, windows, times = batch
    compute = compile_features(spec)
    together = compute(windows, times)
    assert together.shape == (len(windows), feature_count(spec))
    assert together.dtype == np.float32
    for i in range(len(windows)):
        alone = compute(windows[i : i + 1], times[i : i + 1])
        assert alone.tobytes() == together[i : i + 1].tobytes()
    backwards = compute(windows[::-1], times[::-1])
    assert backwards.tobytes() == together[::-1].tobytes()


@given(batches())
def test_memory_layout_does_not_matter_bit_for_bit(batch):
    spec, windows, times = batch
    compute = compile_features(spec)
    fortran = np.asfortranarray(windows)
    strided = np.repeat(windows, 2, axis=0)[::2]
    for other in (fortran, strided):
        assert compute(other, times).tobytes() == compute(windows, times).tobytes()


@given(batches())
def test_the_input_is_never_written_to(batch):
    spec, windows, times = batch
    before = windows.tobytes() + times.tobytes()
    windows.flags.writeable = times.flags.writeable = False
    compile_features(spec)(windows, times)
    assert windows.tobytes() + times.tobytes() == before


@given(specs())
def test_a_specification_survives_the_wire_with_its_digest(spec):
    back = msgspec.json.decode(msgspec.json.encode(spec), type=FeatureSpec)
    assert back == spec
    assert feature_digest(back) == feature_digest(spec)
    assert len(feature_names(spec)) == feature_count(spec)
