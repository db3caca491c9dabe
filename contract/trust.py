"""How far a time can be trusted, decided alike on the device and, after the fact, at the hub. Pure, columnar.

A reading has up to two times: its own, which the payload gave, and its arrival, which the device's wall
clock gave. Neither is right by itself: a sensor's clock may be wrong, and so may the device's.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

BUILD_S: Final = 1764547200.0
"""2025-12-01: no honest clock of a device that runs this code is earlier."""
AHEAD_S: Final = 300.0
"""How far ahead of its arrival a reading may claim to be."""
SAME_CLOCK_S: Final = 1.0
"""Two stamps of one boot tell the same clock if wall and monotonic time differ by no more than this."""


class ReadingFlag(IntFlag):
    """What a person should know about a reading that was kept; one byte on the wire."""

    TIME_UNTRUSTED = 1
    """The payload's own time was impossible; the arrival stands in its place, and it is kept beside it."""
    RETAINED = 2
    """An old value that a broker kept."""
    CHANNEL_REJECTED = 4
    """A channel is missing, or its value was impossible."""
    CLOCK_UNTRUSTED = 8
    """The device did not know whether its own clock was right: the arrival is as doubtful as that."""
    TIME_REPAIRED = 16
    """The arrival, and the time where it follows from it, was corrected when the right time was known."""


def plausible(given: F64, arrivals: F64) -> NDArray[np.bool_]:
    """Which given times [n] can be right: from the build date on, and at most AHEAD_S after the arrival.

    An arrival before the build date says nothing; NaN is not plausible.
    """
    with np.errstate(invalid="ignore"):
        ahead = (given > arrivals + AHEAD_S) & (arrivals >= BUILD_S)
        return np.asarray((given >= BUILD_S) & ~ahead)
