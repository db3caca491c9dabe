"""A wall clock that another process can shift while it runs, through eight bytes of a shared file."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from contract.messages import Clock as ClockStamp
from edge_agent.clock import SystemClock

_OFFSET = struct.Struct("<d")


class ShiftedClock(SystemClock):
    """The machine's clocks, the wall clock shifted by what the file says now.

    A shifted clock is not to be trusted, as one that no time server has set.
    """

    def __init__(self, path: Path) -> None:
        """Maps the file, which `set_shift` has made."""
        super().__init__()
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), _OFFSET.size, access=mmap.ACCESS_READ)

    @property
    def shift_s(self) -> float:
        """Seconds that the wall clock is ahead."""
        return float(_OFFSET.unpack_from(self._map)[0])

    def wall_s(self) -> float:
        """UTC seconds since 1970, shifted."""
        return super().wall_s() + self.shift_s

    def trusted(self) -> bool:
        """Whether the machine trusts its clock, and nobody has shifted it."""
        return self.shift_s == 0 and super().trusted()

    def stamp(self) -> ClockStamp:
        """The clocks together, for an event."""
        return ClockStamp(self.boot, self.mono_ns() / 1e9, self.wall_s(), self.trusted())


def set_shift(path: Path, seconds: float) -> None:
    """Shifts every clock that maps the file, from now on; makes the file if need be."""
    with path.open("r+b" if path.exists() else "xb") as file:
        file.write(_OFFSET.pack(seconds))
