import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.windows.rings import Rings
from tests.fakes.batches import cut, reading_batch

SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 11))
SLOTS = st.one_of(
    st.lists(st.integers(0, 4), max_size=120),
    st.tuples(st.integers(65, 200), st.integers(0, 4)).map(lambda burst: [burst[1]] * burst[0]),
)
CUTS = st.lists(st.integers(0, 200), max_size=8)


def rings(shape) -> Rings:
    return Rings(kind=0, window=shape[0], hop=shape[1], channels=2)


def stream_of(slots: list[int]):
    return reading_batch(slots, np.arange(2.0 * len(slots)).reshape(-1, 2))


def flat(found) -> list[tuple[object, ...]]:
    return [
        (int(slot), int(number), values.tolist(), times.tolist(), int(arrival))
        for due in found
        for slot, number, values, times, arrival in zip(
            due.slots, due.numbers, due.values, due.times_s, due.arrivals_ns, strict=True
        )
    ]


def naive(batch, shape) -> list[tuple[object, ...]]:
    window, hop = shape
    seen: dict[int, list[int]] = {}
    result: list[tuple[object, ...]] = []
    for row, slot in enumerate(batch.slots.tolist()):
        rows = seen.setdefault(slot, [])
        rows.append(row)
        number = len(rows)
        if number >= window and (number - window) % hop == 0:
            last = rows[-window:]
            result.append(
                (
                    slot,
                    number,
                    batch.values[last].tolist(),
                    batch.times_s[last].tolist(),
                    int(batch.arrivals_ns[row]),
                )
            )
    return result


@given(SLOTS, SHAPES, CUTS)
def test_windows_are_those_of_a_naive_reading_however_the_batches_are_cut(slots, shape, edges):
    batch = stream_of(slots)
    one = rings(shape)
    found = [due for part in cut(batch, edges) for due in one.push(part)]
    assert flat(found) == naive(batch, shape)


@given(SLOTS, SHAPES, CUTS)
def test_each_window_names_the_reading_that_completed_it(slots, shape, edges):
    one = rings(shape)
    for part in cut(stream_of(slots), edges):
        for due in one.push(part):
            assert (part.slots[due.last] == due.slots).all()
            assert (part.times_s[due.last] == due.times_s[:, -1]).all()


@settings(max_examples=60)
@given(SLOTS, SLOTS, SHAPES)
def test_rings_that_were_restored_from_their_tails_go_on_exactly(before, after, shape):
    batch = stream_of([*before, *after])
    first, second = cut(batch, [len(before)]) if before and after else (batch, batch)
    old = rings(shape)
    old.push(first)
    new = rings(shape)
    for slot in set(first.slots.tolist()):
        count, times, values = old.tail(slot)
        assert len(times) == min(count, shape[0])
        new.restore(slot, count, times, values)
    assert flat(new.push(second)) == flat(old.push(second))
