"""Clocks that stand where they were put."""

import time

from contract.messages import Clock as ClockStamp
from tests.fakes.batches import START_S


class StandingClock:
    """Stands still until it is moved."""

    def __init__(self, at_s: float = START_S) -> None:
        self.at_s = at_s

    def wall_s(self) -> float:
        return self.at_s

    def mono_ns(self) -> int:
        return round(self.at_s * 1e9)

    def stamp(self) -> ClockStamp:
        return ClockStamp("twin", self.at_s, self.at_s, trusted=True)


class RunningClock(StandingClock):
    """Its monotonic time runs; its wall time stands."""

    def mono_ns(self) -> int:
        return time.monotonic_ns()
