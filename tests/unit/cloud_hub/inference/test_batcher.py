"""The batcher's rules, one by one."""

import math
from typing import Any

from cloud_hub.inference.batcher import Batcher, Item
from cloud_hub.inference.cost import SAFETY, CostModel
from contract.status import Priority, Status


def _cost(fixed_ms: float, row_ms: float) -> CostModel:
    """Predicts fixed + row · n, the safety factor included."""
    cost = CostModel()
    for rows in (1, 8):
        cost.seed(rows, (fixed_ms + row_ms * rows) / 1000 / SAFETY)
    return cost


def _batcher(fixed_ms: float = 1.0, row_ms: float = 1.0, **limits) -> Batcher:
    given: dict[str, Any] = {
        "max_batch": 8,
        "max_rows": 100,
        "max_bytes": 10_000,
        "buckets": (1, 2, 4, 8),
    }
    return Batcher(_cost(fixed_ms, row_ms), **(given | limits))


def _item(
    name: str,
    *,
    budget_ms: float = math.inf,
    rows: int = 1,
    priority: Priority = Priority.RT,
    device: str = "d1",
) -> Item:
    return Item(device, name, priority, rows, rows * 10, budget_ms / 1000, 0.0)


def _offer(batcher: Batcher, item: Item, busy_ms: float = 0.0) -> Status | None:
    refusal = batcher.offer(item, now_s=0.0, busy_until_s=busy_ms / 1000)
    return None if refusal is None else refusal.status


def _names(items) -> list[str]:
    return [item.request for item in items]


def test_one_alone_runs_at_once_and_alone():
    batcher = _batcher()
    assert _offer(batcher, _item("a", budget_ms=50)) is None
    assert _names(batcher.take(now_s=0.0).batch) == ["a"]


def test_what_waits_runs_together_up_to_the_largest_batch():
    batcher = _batcher()
    for n in range(10):
        assert _offer(batcher, _item(str(n))) is None
    assert _names(batcher.take(now_s=0.0).batch) == list("01234567")
    assert _names(batcher.take(now_s=0.0).batch) == list("89")


def test_a_request_that_cannot_be_done_in_time_is_refused_with_the_time_it_lacks():
    batcher = _batcher(fixed_ms=10, row_ms=0)
    refusal = batcher.offer(_item("late", budget_ms=12), now_s=0.0, busy_until_s=0.005)
    assert refusal is not None
    assert refusal.status is Status.BUSY
    assert math.isclose(refusal.retry_after_s, 0.003, abs_tol=1e-9)


def test_rows_ahead_count_against_a_newcomer_but_not_those_of_lower_priority():
    batcher = _batcher(fixed_ms=10, row_ms=0)
    for n in range(8):
        assert _offer(batcher, _item(str(n), priority=Priority.BULK)) is None
    assert _offer(batcher, _item("rt", budget_ms=11), busy_ms=0.5) is None
    for n in range(7):
        assert _offer(batcher, _item(f"rt{n}", budget_ms=11), busy_ms=0.5) is None
    assert _offer(batcher, _item("too many", budget_ms=11), busy_ms=0.5) is Status.BUSY


def test_limits_count_rows_and_bytes():
    assert _offer(_batcher(max_rows=3), _item("a", rows=4)) is Status.BUSY
    batcher = _batcher(max_bytes=25)
    assert _offer(batcher, _item("a", rows=2)) is None
    assert _offer(batcher, _item("b", rows=1)) is Status.BUSY
    assert _offer(_batcher(), _item("c", rows=9)) is Status.TOO_LARGE


def test_what_arrives_late_is_expired():
    assert _offer(_batcher(), _item("a", budget_ms=0)) is Status.EXPIRED


def test_expired_items_are_dropped_and_never_run():
    batcher = _batcher()
    _offer(batcher, _item("a", budget_ms=20))
    _offer(batcher, _item("b", budget_ms=500))
    taken = batcher.take(now_s=0.1)
    assert (_names(taken.batch), _names(taken.expired)) == (["b"], ["a"])


def test_a_small_backlog_shrinks_the_batch_for_its_head():
    batcher = _batcher(fixed_ms=10, row_ms=5)
    _offer(batcher, _item("urgent", budget_ms=26))
    for n in range(4):
        _offer(batcher, _item(str(n), budget_ms=500))
    taken = batcher.take(now_s=0.0)
    assert (_names(taken.batch), taken.expired) == (["urgent", "0", "1"], ())


def test_a_full_backlog_sheds_a_head_that_no_full_batch_can_serve():
    batcher = _batcher(fixed_ms=10, row_ms=5)
    _offer(batcher, _item("urgent", budget_ms=26))
    for n in range(8):
        _offer(batcher, _item(str(n), budget_ms=500))
    taken = batcher.take(now_s=0.0)
    assert (_names(taken.batch), _names(taken.expired)) == (list("01234567"), ["urgent"])


def test_a_head_that_could_not_make_it_alone_is_shed():
    batcher = _batcher(fixed_ms=10, row_ms=5)
    _offer(batcher, _item("urgent", budget_ms=26))
    _offer(batcher, _item("calm", budget_ms=500))
    taken = batcher.take(now_s=0.015)
    assert (_names(taken.batch), _names(taken.expired)) == (["calm"], ["urgent"])


def test_a_pessimistic_forecast_heals_because_an_idle_executor_always_tries():
    batcher = _batcher(fixed_ms=1000, row_ms=0)
    assert _offer(batcher, _item("probe", budget_ms=50)) is None
    assert _offer(batcher, _item("next", budget_ms=50)) is Status.BUSY
    assert _names(batcher.take(now_s=0.0).batch) == ["probe"]


def test_free_places_up_to_the_next_bucket_go_to_lower_priorities():
    batcher = _batcher()
    for n in range(3):
        _offer(batcher, _item(f"rt{n}", budget_ms=500))
    for n in range(3):
        _offer(batcher, _item(f"bulk{n}", priority=Priority.BULK))
    assert _names(batcher.take(now_s=0.0).batch) == ["rt0", "rt1", "rt2", "bulk0"]


def test_fillers_never_make_a_batch_late():
    batcher = _batcher(fixed_ms=1, row_ms=1)
    for n in range(3):
        _offer(batcher, _item(f"rt{n}", budget_ms=4.5))
    _offer(batcher, _item("bulk", priority=Priority.BULK))
    assert _names(batcher.take(now_s=0.0).batch) == ["rt0", "rt1", "rt2"]


def test_devices_take_turns_when_deadlines_are_alike():
    batcher = _batcher(max_batch=4, buckets=())
    for n in range(4):
        _offer(batcher, _item(f"greedy{n}", budget_ms=500.1, device="greedy"))
    for n in range(2):
        _offer(batcher, _item(f"modest{n}", budget_ms=500.9, device="modest"))
    assert sorted(_names(batcher.take(now_s=0.0).batch)) == [
        "greedy0", "greedy1", "modest0", "modest1",
    ]  # fmt: skip


def test_cancel_works_until_the_item_is_taken():
    batcher = _batcher()
    _offer(batcher, _item("a"))
    _offer(batcher, _item("b"))
    assert batcher.cancel("d1", "a") is not None
    assert batcher.cancel("d2", "b") is None
    assert _names(batcher.take(now_s=0.0).batch) == ["b"]
    assert batcher.cancel("d1", "b") is None


def test_the_predicted_wait_grows_with_the_backlog():
    batcher = _batcher(fixed_ms=1, row_ms=1)
    assert batcher.predicted_wait_s(0.0, 0.002) == 0.002
    for n in range(9):
        _offer(batcher, _item(str(n)))
    assert math.isclose(batcher.predicted_wait_s(0.0, 0.0), 0.009 + 0.002)
