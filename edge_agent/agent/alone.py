"""One agent a data folder: a lock that the kernel gives back whatever ends the process."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from edge_agent.errors import EdgeError

FILE: Final = "agent.lock"
_MOST_BYTES: Final = 32


class AlreadyRunning(EdgeError):
    """Another agent runs with this data folder."""


class DataLock:
    """Holds a data folder until `release`, or the end of the process.

    A folder that cannot be locked is not locked: there the outbox cannot be opened either.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, data_dir: Path) -> DataLock:
        """Locks the folder; raises AlreadyRunning with the process id of who holds it."""
        descriptor = _open(data_dir)
        if descriptor is None:
            return cls(None)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            held_by = os.pread(descriptor, _MOST_BYTES, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise AlreadyRunning(
                f"another edge-agent (pid {held_by or 'unknown'}) runs with this data folder, "
                f"{data_dir}: stop it, or give this one a device.data_dir of its own"
            ) from error
        except OSError:  # a file system without locks
            os.close(descriptor)
            return cls(None)
        with suppress(OSError):  # read-only, or full: then nobody learns our process id
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Lets the next one in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _open(data_dir: Path) -> int | None:
    with suppress(OSError):
        data_dir.mkdir(parents=True, exist_ok=True)
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        with suppress(OSError):
            return os.open(data_dir / FILE, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    return None
