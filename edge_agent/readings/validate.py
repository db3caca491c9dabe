"""Which values are possible (pure, columnar): what lies outside a channel's limits becomes NaN."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_agent.types import F64


@dataclass(frozen=True, slots=True)
class Limits:
    """The possible range of each of c channels; infinite where none was declared."""

    low: F64
    high: F64

    @classmethod
    def of(cls, ranges: list[tuple[float | None, float | None]]) -> Limits:
        """From (min, max) pairs, None for no limit."""
        low = [-np.inf if low is None else low for low, _ in ranges]
        high = [np.inf if high is None else high for _, high in ranges]
        return cls(np.array(low, dtype=np.float64), np.array(high, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class Checked:
    """Values [n, c] with NaN for what was rejected, and which were out of range [n, c]."""

    values: F64
    out_of_range: NDArray[np.bool_]


def check_values(values: F64, limits: Limits) -> Checked:
    """Rejects each channel's impossible values and keeps its neighbours."""
    with np.errstate(invalid="ignore"):
        outside = (values < limits.low) | (values > limits.high)
    if outside.any():
        values = np.where(outside, np.nan, values)
    return Checked(values, outside)
