"""Blocks of the disk that are set aside before they are needed, so that a full disk stops no deletion.

Two things of a file in WAL mode need new blocks: its log, and the file itself when the log is moved
into it. The log is therefore allocated whole (zeros behind its last frame mean "no more frames"), and a
spare file holds as many blocks as the file may fall short of its own page count. When the disk is full,
the spare is given back, the log goes into the file, and from then on nothing needs a new block.

Never opens the file itself: closing a second handle of it would drop the locks that SQLite holds.
"""

from __future__ import annotations

import errno
import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PAGE_BYTES: Final = 4096
_FRAME_BYTES: Final = PAGE_BYTES + 24
_LOG_HEADER_BYTES: Final = 32
_MAX_LOG_PAGES: Final = 1000
_STEP_PAGES: Final = 128
"""About as many pages as one step of shedding changes."""
_MIN_PAGES: Final = 32
_NEAR_BYTES: Final = 64 * 1024
"""A file this near to the limit of its size has hit it."""
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
SPARE_SUFFIX: Final = "-spare"


@dataclass(frozen=True, slots=True)
class Plan:
    """How a quota is divided, in pages: the file, its log, the spare."""

    limit: int
    """Most pages of the file."""
    checkpoint: int
    """The log is moved into the file at this length."""
    log: int
    """Most pages of the log: one more transaction, whose shedding rewrites rows, may stand in it."""
    spare: int

    @property
    def log_bytes(self) -> int:
        """The log at its longest, in bytes."""
        return self.log * _FRAME_BYTES + _LOG_HEADER_BYTES


def plan(quota_bytes: int, *, available_bytes: int) -> Plan:
    """Divides `quota_bytes`, with a log that fits the disk where that is smaller."""
    quota = max(quota_bytes // PAGE_BYTES, 64)
    pages = max(min(quota, available_bytes // PAGE_BYTES), 64)
    step = min(_STEP_PAGES, pages // 16)
    checkpoint = min(_MAX_LOG_PAGES, max(pages // 16, 16))
    log = 2 * checkpoint + step
    spare = checkpoint + step
    return Plan(max(quota - log - spare, _MIN_PAGES), checkpoint, log, spare)


class Room:
    """What one file has set aside on its disk."""

    def __init__(self, path: Path, *, quota_bytes: int, pages: Plan | None = None) -> None:
        """`pages` are for a file whose needs are known better than by its quota."""
        self._path = path
        self._log = path.with_name(path.name + "-wal")
        self._spare = path.with_name(path.name + SPARE_SUFFIX)
        self.plan = pages or plan(quota_bytes, available_bytes=self._available())

    def claim(self) -> bool:
        """Sets aside what is missing; False when the disk has not got it."""
        if not _allocate(self._log, self.plan.log_bytes):
            return False
        if _allocate(self._spare, self.plan.spare * PAGE_BYTES):
            return True
        self.release()
        return False

    def release(self) -> None:
        """Gives the spare back to the disk, for the file to grow into."""
        self._spare.unlink(missing_ok=True)

    def granted_pages(self) -> int:
        """How large the file may become on this disk, as far as the disk goes."""
        return self._available() // PAGE_BYTES - self.plan.log - self.plan.spare

    def short_of(self, pages: int) -> int:
        """How many of the file's pages are in its log only."""
        return max(pages - _size(self._path) // PAGE_BYTES, 0)

    def full(self) -> bool:
        """Whether a failed write is one for want of space, whatever SQLite calls it."""
        most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        if most == resource.RLIM_INFINITY:
            return False
        largest = max(_size(self._path), _size(self._log))
        return largest + _NEAR_BYTES >= most

    def _available(self) -> int:
        try:
            disk = os.statvfs(self._path.parent)
        except OSError:
            return 1 << 62
        own = _size(self._path) + _size(self._log) + _size(self._spare)
        return own + disk.f_bavail * disk.f_frsize


def _allocate(path: Path, size: int) -> bool:
    """Gives a file blocks for `size` bytes, which read as zeros; False when the disk is full."""
    if _size(path) >= size:
        return True
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        # A file system that cannot set blocks aside is used as it is.
        return error.errno not in _FULL
    finally:
        os.close(handle)
    return True


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
