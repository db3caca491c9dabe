"""The batcher under any traffic: every item ends once, no batch is too large, nobody starves."""

import math
from itertools import count, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from cloud_hub.inference.batcher import ORDER, Batcher, Item
from cloud_hub.inference.cost import CostModel
from contract.status import Priority

_items = st.tuples(
    st.sampled_from(list(Priority)),
    st.sampled_from(["d1", "d2", "d3"]),
    st.integers(1, 10),
    st.one_of(st.floats(0.001, 0.2), st.just(math.inf)),
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), _items),
        st.tuples(st.just("take"), st.floats(0, 0.05)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
    ),
    max_size=60,
)
_costs = st.tuples(st.floats(0, 0.02), st.floats(0, 0.002))


def _cost(fixed_s: float, row_s: float) -> CostModel:
    cost = CostModel()
    for rows in (1, 8):
        cost.seed(rows, fixed_s + row_s * rows)
    return cost


def _batcher(cost: CostModel, *, max_batch: int = 8) -> Batcher:
    return Batcher(cost, max_batch=max_batch, max_rows=60, max_bytes=600, buckets=(1, 2, 4, 8))


def _item(
    number: int, priority: Priority, device: str, rows: int, *, budget_s: float, now_s: float = 0.0
) -> Item:
    return Item(device, f"r{number}", priority, rows, rows * 10, now_s + budget_s, now_s)


@settings(max_examples=300)
@given(_steps, _costs)
def test_every_item_that_was_let_in_ends_exactly_once(steps, costs):
    batcher, numbers, now_s = _batcher(_cost(*costs)), count(), 0.0
    inside: dict[str, Item] = {}
    ended: list[str] = []
    for kind, given_value in steps:
        if kind == "offer":
            priority, device, rows, budget_s = given_value
            item = _item(next(numbers), priority, device, rows, budget_s=budget_s, now_s=now_s)
            if batcher.offer(item, now_s=now_s, busy_until_s=now_s) is None:
                inside[item.request] = item
        elif kind == "cancel":
            name = f"r{given_value}"
            known = inside.get(name)
            gone = batcher.cancel("d1" if known is None else known.device, name)
            assert gone is (None if name in ended else known)
            ended += [] if gone is None else [name]
        else:
            now_s += given_value
            taken = batcher.take(now_s=now_s)
            assert taken.rows <= batcher.max_batch
            assert all(item.deadline_s > now_s for item in taken.batch)
            ended += [item.request for item in (*taken.batch, *taken.expired)]
    ended += [item.request for item in batcher.drain()]
    assert sorted(ended) == sorted(inside)
    assert batcher.backlog_rows == 0


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from([Priority.STD, Priority.BULK]), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_a_lower_priority_gets_at_least_one_batch_in_eight(lower, seed):
    batcher, numbers = _batcher(_cost(0.0, 0.0), max_batch=2), count(seed)
    for priority in lower:
        assert (
            batcher.offer(
                _item(next(numbers), priority, "low", 2, budget_s=math.inf),
                now_s=0.0,
                busy_until_s=1.0,
            )
            is None
        )
    waits = dict.fromkeys(lower, 0)
    while waits:
        while batcher.backlog_rows < 20:
            batcher.offer(
                _item(next(numbers), Priority.RT, "d1", 2, budget_s=math.inf),
                now_s=0.0,
                busy_until_s=1.0,
            )
        (served,) = {item.priority for item in batcher.take(now_s=0.0).batch}
        waits = {priority: n + 1 for priority, n in waits.items() if priority is not served}
        assert all(n < 8 for n in waits.values())


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.sampled_from(["d1", "d2"]), st.floats(0.05, 10)), min_size=2, max_size=20)
)
def test_earlier_deadlines_come_first_to_within_a_step(offers):
    batcher = Batcher(_cost(0.0, 0.0), max_batch=1, max_rows=100, max_bytes=10_000)
    for number, (device, budget_s) in enumerate(offers):
        batcher.offer(
            _item(number, Priority.RT, device, 1, budget_s=budget_s), now_s=0.0, busy_until_s=0.0
        )
    order = [batcher.take(now_s=0.0).batch[0].deadline_s for _ in offers]
    assert all(earlier < later + 0.005 for earlier, later in pairwise(order))


@given(
    st.lists(st.tuples(st.integers(1, 64), st.floats(1e-5, 0.1)), min_size=1, max_size=200),
    st.integers(1, 64),
)
def test_predictions_are_finite_never_negative_and_grow_with_rows(runs, rows):
    cost = CostModel()
    for n, seconds in runs:
        cost.record(n, seconds)
    assert 0 <= cost.predict(rows) <= cost.predict(rows + 1) < 10
    assert cost.predict(cost.rows_within(0.05)) <= 0.05 + 1e-9 or cost.rows_within(0.05) == 0


def test_the_order_of_priorities_is_that_of_the_contract():
    assert list(ORDER) == [Priority.RT, Priority.STD, Priority.BULK]
