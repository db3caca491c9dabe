import numpy as np

from edge_agent.inference.baseline import (
    LIMIT,
    MIN_READINGS,
    Baseline,
    baseline_confidence,
)
from edge_agent.windows.rings import ranks
from tests.fakes.batches import reading_batch


def deviations(values, slots=None, baseline: Baseline | None = None) -> np.ndarray:
    table = np.asarray(values, dtype=float)
    table = table if table.ndim == 2 else table.reshape(-1, 1)
    batch = reading_batch([0] * len(table) if slots is None else slots, table)
    baseline = Baseline(table.shape[1]) if baseline is None else baseline
    return baseline.push(batch, ranks(batch.slots))


def noise(count: int, *, level: float = 20.0, seed: int = 1) -> np.ndarray:
    return level + np.random.default_rng(seed).normal(size=count)


def test_too_few_readings_are_not_judged():
    found = deviations(noise(40))
    assert np.isnan(found[:MIN_READINGS]).all()
    assert not np.isnan(found[MIN_READINGS:]).any()


def test_usual_readings_are_usual():
    assert (deviations(noise(5000)) > LIMIT).mean() < 0.001


def test_a_spike_stands_out_and_does_not_hide_the_next():
    values = noise(300)
    values[[200, 210]] += 40
    found = deviations(values)
    assert found[200] > LIMIT
    assert found[210] > LIMIT
    assert (found[211:] > LIMIT).sum() == 0


def test_a_flat_stream_does_not_flood():
    for level in (0.0, 21.5, -1e6):
        found = deviations(np.full(500, level))
        assert not (found > LIMIT).any()


def test_a_flat_stream_that_flickers_by_its_last_digit_does_not_flood():
    values = np.full(1000, 21.5)
    values[::7] += 0.1
    assert (deviations(values) > LIMIT).sum() == 0


def test_a_new_level_is_learnt_in_the_end():
    found = deviations(np.concatenate([noise(300), noise(600, level=40.0, seed=2)]))
    assert (found[300:320] > LIMIT).all()
    assert not (found[-200:] > LIMIT).any()


def test_the_strongest_channel_counts():
    values = np.stack([noise(200), noise(200, seed=2)], axis=1)
    values[150, 1] += 30
    found = deviations(values)
    assert found[150] > LIMIT
    assert (found[100:150] < LIMIT).all()


def test_a_missing_channel_is_neither_judged_nor_learnt():
    values = np.stack([noise(200), noise(200, seed=2)], axis=1)
    values[100:, 1] = np.nan
    found = deviations(values)
    assert (found[100:] < LIMIT).all()
    values[:, 0] = np.nan
    assert np.isnan(deviations(values)[100:]).all()


def test_streams_do_not_know_one_another():
    one, other = noise(200), noise(200, level=1e6, seed=3)
    both = deviations(np.stack([one, other], axis=1).reshape(-1, 1), slots=[0, 1] * 200)
    np.testing.assert_array_equal(both[::2], deviations(one))
    np.testing.assert_array_equal(both[1::2], deviations(other))


def test_a_stream_that_was_never_seen_has_a_state_and_takes_it_back():
    state = Baseline(2).state(7)
    assert state.seen.tolist() == [0, 0]
    Baseline(2).restore(3, state)


def test_nothing_in_nothing_out():
    assert len(deviations(np.zeros((0, 1)), slots=[])) == 0


def test_confidence_is_least_at_the_limit_and_modest_everywhere():
    found = baseline_confidence(np.array([0.0, LIMIT, 1e9]))
    assert found[1] == 0.5
    assert 0.5 < found[0] < 0.95
    assert 0.9 < found[2] <= 0.95
