import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.observe.latency import LatencyBuckets, bucket_of

latencies = st.floats(0, 5e5, allow_subnormal=False)


@given(st.lists(latencies, min_size=1, max_size=40), st.floats(0.01, 1))
def test_a_percentile_is_within_five_percent(values: list[float], share: float):
    buckets = LatencyBuckets()
    buckets.add_many(values)
    true = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
    assert buckets.quantile_ms(share) == pytest.approx(true, rel=0.051, abs=0.0011)


@given(st.lists(latencies, max_size=50))
def test_one_by_one_or_all_at_once_is_the_same(values: list[float]):
    one, many = LatencyBuckets(), LatencyBuckets()
    for value in values:
        one.add(value)
    many.add_many(values)
    assert one.up_to([0.5, 5, 50]) == many.up_to([0.5, 5, 50])
    assert (one.count, one.max_ms) == (many.count, many.max_ms)
    assert one.sum_ms == pytest.approx(many.sum_ms)


def test_buckets_are_those_of_a_rollup():
    assert bucket_of(1.0) == 0
    assert bucket_of(1.05) == 1
    assert bucket_of(1.1) == 1
    assert bucket_of(1.1**40) == 40
    assert bucket_of(0) == bucket_of(1e-300) == -72
    assert bucket_of(1e30) == 145


def test_what_is_not_finite_is_ignored_and_negative_is_zero():
    buckets = LatencyBuckets()
    buckets.add_many(np.array([math.nan, math.inf, -5.0]))
    buckets.add(math.nan)
    buckets.add(-1)
    assert (buckets.count, buckets.max_ms, buckets.quantile_ms(0.5)) == (2, 0.0, 0.0)


def test_empty_is_zero():
    buckets = LatencyBuckets()
    buckets.add_many([])
    assert buckets.summary() == {"count": 0, "p50": 0.0, "p95": 0.0, "p99": 0.0, "max": 0.0}
