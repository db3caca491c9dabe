"""Latencies in logarithmic buckets: any number of them in 1.7 KiB, percentiles within 5 %."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from contract.messages import LATENCY_GROWTH

_LOG_GROWTH = math.log(LATENCY_GROWTH)
_LOWEST = -72
"""The bucket of everything up to one microsecond."""
_HIGHEST = 145
"""The bucket of everything from a quarter of an hour on."""
_SIZE = _HIGHEST - _LOWEST + 1


class LatencyBuckets:
    """Counts milliseconds; bucket i holds those in (1.1^(i-1), 1.1^i], as in a rollup.

    Never grows. Values that are not finite are ignored; negative ones count as zero.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_SIZE, dtype=np.int64)
        self.count = 0
        self.sum_ms = 0.0
        self.max_ms = 0.0

    def add(self, value_ms: float) -> None:
        """Counts one value."""
        if not math.isfinite(value_ms):
            return
        value_ms = max(value_ms, 0.0)
        self._counts[bucket_of(value_ms) - _LOWEST] += 1
        self.count += 1
        self.sum_ms += value_ms
        self.max_ms = max(self.max_ms, value_ms)

    def add_many(self, values_ms: ArrayLike) -> None:
        """Counts an array of values at once."""
        values = np.asarray(values_ms, dtype=np.float64).ravel()
        values = np.maximum(values[np.isfinite(values)], 0.0)
        if not values.size:
            return
        buckets = np.ceil(np.log(np.maximum(values, 1e-9)) / _LOG_GROWTH - 1e-9).astype(np.int64)
        buckets = np.clip(buckets, _LOWEST, _HIGHEST) - _LOWEST
        self._counts += np.bincount(buckets, minlength=_SIZE)
        self.count += int(values.size)
        self.sum_ms += float(values.sum())
        self.max_ms = max(self.max_ms, float(values.max()))

    def quantile_ms(self, share: float) -> float:
        """The value below which `share` of the values lie; 0 when there are none."""
        if not self.count:
            return 0.0
        reached = np.cumsum(self._counts)
        rank = max(1, math.ceil(share * self.count))
        bucket = int(np.searchsorted(reached, rank)) + _LOWEST
        return min(float(LATENCY_GROWTH ** (bucket - 0.5)), self.max_ms)

    def up_to(self, limits_ms: Sequence[float]) -> list[int]:
        """How many values lie at or below each limit, to the nearest bucket."""
        reached = np.cumsum(self._counts)
        return [int(reached[bucket_of(limit) - _LOWEST]) for limit in limits_ms]

    def summary(self) -> dict[str, float]:
        """Count, p50, p95, p99 and maximum, in milliseconds."""
        return {
            "count": self.count,
            "p50": round(self.quantile_ms(0.5), 3),
            "p95": round(self.quantile_ms(0.95), 3),
            "p99": round(self.quantile_ms(0.99), 3),
            "max": round(self.max_ms, 3),
        }


def bucket_of(value_ms: float) -> int:
    """The bucket that a latency falls into."""
    if value_ms <= 1e-9:
        return _LOWEST
    bucket = math.ceil(math.log(value_ms) / _LOG_GROWTH - 1e-9)
    return min(max(bucket, _LOWEST), _HIGHEST)
