"""The device's clocks: boot id, monotonic time, wall time, and how far the wall clock may be trusted."""

from __future__ import annotations

import ctypes
import time
import uuid
from pathlib import Path

from contract.messages import Clock as ClockStamp
from contract.trust import BUILD_S

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_ERROR = 5
"""What ntp_adjtime(3) returns while the kernel's clock is not synchronised."""


class SystemClock:
    """The machine's own clocks."""

    def __init__(self) -> None:
        """Reads the boot id once; a machine without one gets a new id for each start."""
        try:
            self.boot = _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            self.boot = uuid.uuid4().hex
        self._libc = ctypes.CDLL(None)

    def wall_s(self) -> float:
        """UTC seconds since 1970, as the machine believes."""
        return time.time()

    def mono_ns(self) -> int:
        """Nanoseconds that never go back."""
        return time.monotonic_ns()

    def trusted(self) -> bool:
        """Whether the wall clock is plausible and the kernel says it is synchronised."""
        if self.wall_s() < BUILD_S:
            return False
        query = ctypes.create_string_buffer(512)  # struct timex with modes = 0: only asks
        return int(self._libc.ntp_adjtime(query)) != _TIME_ERROR

    def stamp(self) -> ClockStamp:
        """The clocks together, for an event."""
        return ClockStamp(self.boot, self.mono_ns() / 1e9, self.wall_s(), self.trusted())


class RecordedClock:
    """The clock of a replay: it stands at the arrival of the latest message that was handed out."""

    def __init__(self) -> None:
        """Stands at 1970 until it is moved."""
        self._now_s = 0.0

    def advance(self, to_s: float) -> None:
        """Moves forward to `to_s`, never back."""
        self._now_s = max(self._now_s, to_s)

    def wall_s(self) -> float:
        """The time of the recording."""
        return self._now_s

    def mono_ns(self) -> int:
        """The time of the recording, in nanoseconds."""
        return int(self._now_s * 1e9)

    def stamp(self) -> ClockStamp:
        """A stamp that depends on the recording alone."""
        return ClockStamp("replay", self._now_s, self._now_s, trusted=True)
