import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edge_agent.inference import baseline as module
from edge_agent.inference.baseline import Baseline
from edge_agent.windows.rings import ranks
from tests.fakes.batches import cut, reading_batch

SLOTS = st.lists(st.integers(0, 12), min_size=1, max_size=150)
CUTS = st.lists(st.integers(0, 150), max_size=6)
SCALES = st.sampled_from([1e-3, 1.0, 1e6])


def stream_of(slots: list[int], seed: int, scale: float):
    rng = np.random.default_rng(seed)
    values = scale * (5 + rng.normal(size=(len(slots), 2)))
    values[rng.random(values.shape) < 0.05] = np.nan
    values[rng.random(values.shape) < 0.02] *= 50
    return reading_batch(slots, values)


def state_of(baseline: Baseline, slots: list[int]) -> list[object]:
    states = [baseline.state(slot) for slot in sorted(set(slots))]
    return [(s.level.tolist(), s.spread.tolist(), s.seen.tolist()) for s in states]


def push(baseline: Baseline, batches) -> np.ndarray:
    return np.concatenate([baseline.push(part, ranks(part.slots)) for part in batches])


@given(SLOTS, CUTS, st.integers(0, 99), SCALES)
def test_deviations_do_not_depend_on_how_batches_are_cut(slots, edges, seed, scale):
    batch = stream_of(slots, seed, scale)
    whole, parts = Baseline(2), Baseline(2)
    np.testing.assert_array_equal(push(whole, [batch]), push(parts, cut(batch, edges)))
    assert state_of(whole, slots) == state_of(parts, slots)


@given(SLOTS, st.integers(0, 99), SCALES)
def test_one_by_one_and_in_columns_are_the_same_bit_for_bit(slots, seed, scale):
    batch = stream_of(slots, seed, scale)
    single, columns = Baseline(2), Baseline(2)
    for _ in range(3):
        expected = np.empty(len(batch))
        order = ranks(batch.slots)
        columns._grow(int(batch.slots.max()) + 1)
        single._grow(int(batch.slots.max()) + 1)
        for rank in range(int(order.max()) + 1):
            rows = np.flatnonzero(order == rank)
            expected[rows] = columns._learn(batch.slots[rows], batch.values[rows])
        np.testing.assert_array_equal(single._learn_one_by_one(batch), expected)
    assert state_of(single, slots) == state_of(columns, slots)


@given(SLOTS, SLOTS, st.integers(0, 99))
def test_a_state_that_was_restored_goes_on_exactly(before, after, seed):
    old = Baseline(2)
    push(old, [stream_of(before, seed, 1.0)] * 3)
    new = Baseline(2)
    for slot in set(before):
        new.restore(slot, old.state(slot))
    later = stream_of(after, seed + 1, 1.0)
    np.testing.assert_array_equal(push(new, [later]), push(old, [later]))
    assert state_of(new, [*before, *after]) == state_of(old, [*before, *after])


@settings(max_examples=50)
@given(st.integers(0, 99), st.sampled_from([2.0**-20, 0.5, 2.0**10, 2.0**30]))
def test_the_unit_of_a_channel_does_not_change_the_deviations(seed, factor):
    batch = stream_of([0] * 150, seed, 1.0)
    scaled = reading_batch(batch.slots.tolist(), batch.values * factor)
    np.testing.assert_allclose(
        push(Baseline(2), [scaled]), push(Baseline(2), [batch]), rtol=1e-3, equal_nan=True
    )


@settings(max_examples=50)
@given(hnp.arrays(np.float64, (90, 1), elements=st.floats(-1e15, 1e15) | st.just(np.nan)))
def test_a_deviation_is_never_negative_and_never_infinite(values):
    baseline = Baseline(1)
    found = push(baseline, [reading_batch([0] * 90, values)])
    known = found[~np.isnan(found)]
    assert np.isfinite(known).all()
    assert (known >= 0).all()
    state = baseline.state(0)
    assert np.isfinite(state.level).all()
    assert np.isfinite(state.spread).all()
    assert module.MIN_READINGS <= 90
