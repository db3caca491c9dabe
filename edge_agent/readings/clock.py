"""Which time a reading gets (pure): decided from the build date and the arrival, for each reading."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contract.messages import Clock as ClockStamp
from contract.trust import BUILD_S, SAME_CLOCK_S, ReadingFlag, plausible
from edge_agent.types import F64, ReadingBatch

TimeMode = Literal["checked", "recorded", "arrival"]
NOTHING: Final = float("nan")
# As numpy's own bytes: a flag of Python's would widen the column.
_CLOCK_UNTRUSTED: Final = np.uint8(ReadingFlag.CLOCK_UNTRUSTED)
_TIME_REPAIRED: Final = np.uint8(ReadingFlag.TIME_REPAIRED)


class Times(NamedTuple):
    """The times to use [n], which of them are not the payload's because that is impossible, and `own` [n].

    `own` holds the payload's time where it was not simply used: it is impossible, or nobody could judge
    it; NaN elsewhere.
    """

    used: F64
    untrusted: NDArray[np.bool_]
    own: F64


def trusted_times(given: F64, arrivals: F64, mode: TimeMode) -> Times:
    """The times of some readings; one reading's clock never moves another's time.

    `given` holds NaN where the payload gave no time; the arrival then stands, and that is no fault.
    In `checked` mode a time before the build date or ahead of its arrival is replaced by the arrival.
    While the device's own clock is before the build date (no NTP yet), a given time that can be right
    is believed rather than the arrival. In `recorded` mode every given time is used as it is.
    """
    absent = np.isnan(given)
    if mode == "checked":
        wrong = ~absent & ~plausible(given, arrivals)
        unjudged = ~absent & (arrivals < BUILD_S)
        own = np.where(wrong | unjudged, given, NOTHING)
        return Times(np.where(absent | wrong, arrivals, given), wrong, own)
    nothing = np.full(len(given), NOTHING)
    none = np.zeros(len(given), dtype=bool)
    if mode == "arrival":
        return Times(arrivals.copy(), none, nothing)
    return Times(np.where(absent, arrivals, given), none, nothing)


def stamped(batch: ReadingBatch, stamp: ClockStamp) -> ReadingBatch:
    """The readings as the clocks of their row tell them; the batch itself where there is nothing to say.

    While the wall clock is not trusted every reading says so. When it jumped between the arrival and the
    stamp (the first NTP answer after a start), the arrival is told by the stamp's clock: whatever is found
    out about that one then holds for the whole row.
    """
    waited_s = stamp.mono_s - batch.arrivals_ns / 1e9
    stepped_s = (stamp.wall_s - waited_s) - batch.arrivals_s
    moved = np.abs(stepped_s) > SAME_CLOCK_S
    if stamp.trusted and not moved.any():
        return batch
    flags = batch.flags if stamp.trusted else batch.flags | _CLOCK_UNTRUSTED
    follows = moved & (batch.times_s == batch.arrivals_s)
    arrivals_s = np.where(moved, batch.arrivals_s + stepped_s, batch.arrivals_s)
    return replace(
        batch,
        arrivals_s=arrivals_s,
        times_s=np.where(follows, arrivals_s, batch.times_s),
        flags=np.where(moved & stamp.trusted, flags | _TIME_REPAIRED, flags),
    )
