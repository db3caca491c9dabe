"""How far a time can be trusted (pure): decided from the build date and the arrival, for each reading."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from edge_agent.clock import BUILD_S
from edge_agent.types import F64

TimeMode = Literal["checked", "recorded", "arrival"]

AHEAD_S: Final = 300.0
"""How far ahead of its arrival a reading may claim to be."""


def trusted_times(given: F64, arrivals: F64, mode: TimeMode) -> tuple[F64, np.ndarray]:
    """The times to use [n], and which of them [n, bool] are not to be trusted.

    `given` holds NaN where the payload gave no time; the arrival then stands, and that is no fault.
    In `checked` mode a time before the build date or ahead of its arrival is replaced by the arrival.
    While the device's own clock is before the build date (no NTP yet), a given time that can be right
    is believed rather than the arrival. In `recorded` mode every given time is used as it is. One
    device's clock never moves another's.
    """
    absent = np.isnan(given)
    if mode == "arrival":
        return arrivals.copy(), np.zeros(len(given), dtype=bool)
    if mode == "recorded":
        return np.where(absent, arrivals, given), np.zeros(len(given), dtype=bool)
    with np.errstate(invalid="ignore"):
        ahead = (given > arrivals + AHEAD_S) & (arrivals >= BUILD_S)
        wrong = (given < BUILD_S) | ahead
    return np.where(absent | wrong, arrivals, given), wrong
