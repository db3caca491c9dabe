"""How much of the machine others used meanwhile: what they took, a drill cannot ask of the product."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_BUSY = (0, 1, 2, 5, 6, 7)
"""Fields of /proc/stat: user, nice, system, irq, softirq, steal."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Processor seconds up to now: of the whole machine, and of this process and all that it started."""

    at_s: float
    machine_s: float
    ours_s: float

    def others_since(self, earlier: Moment) -> float:
        """How many processors others used on average, or the machine below us took away."""
        foreign_s = (self.machine_s - earlier.machine_s) - (self.ours_s - earlier.ours_s)
        return max(0.0, foreign_s / max(self.at_s - earlier.at_s, 1e-3))


def moment() -> Moment:
    """Now; call off the loop."""
    first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    machine_s = sum(int(first[field]) for field in _BUSY) / _TICKS_PER_S
    ours_s = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            ours_s += sum(process.cpu_times()[:4])  # those that ended count at their parent
        except psutil.NoSuchProcess:
            continue
    return Moment(time.monotonic(), machine_s, ours_s)


def share_left(others: float) -> float:
    """What of the machine was left for the drill, 0.1 at least."""
    processors = os.cpu_count() or 1
    return max(0.1, 1.0 - others / processors)
