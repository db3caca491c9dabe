"""Rates are per device, in rows, and say when to come again."""

from cloud_hub.inference.admission import MAX_DEVICES, RateLimits
from contract.status import Status


def test_a_burst_is_let_in_then_the_rate_holds():
    limits = RateLimits(rows_per_s=10, burst_rows=5)
    assert limits.take("d1", 5, now_s=0.0) is None
    refusal = limits.take("d1", 1, now_s=0.05)
    assert refusal is not None
    assert refusal.status is Status.BUSY
    assert abs(refusal.retry_after_s - 0.05) < 1e-9
    assert limits.take("d1", 1, now_s=0.1) is None


def test_devices_do_not_share():
    limits = RateLimits(rows_per_s=1, burst_rows=1)
    assert limits.take("d1", 1, now_s=0.0) is None
    assert limits.take("d2", 1, now_s=0.0) is None


def test_an_ask_larger_than_the_burst_waits_for_a_full_bucket_and_not_for_ever():
    limits = RateLimits(rows_per_s=1, burst_rows=4)
    assert limits.take("d1", 100, now_s=0.0) is None
    assert limits.take("d1", 100, now_s=1.0) is not None
    assert limits.take("d1", 100, now_s=4.0) is None


def test_the_devices_that_are_remembered_are_bounded():
    limits = RateLimits(rows_per_s=1, burst_rows=1)
    for n in range(MAX_DEVICES + 10):
        limits.take(f"d{n}", 1, now_s=0.0)
    assert len(limits._buckets) == MAX_DEVICES
