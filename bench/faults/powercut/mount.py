"""The volume as a mounted file system: paths, handles, attributes and injected faults; one lock for all.

The only module that knows FUSE. The kernel keeps pages it has read (`kernel_cache`), passes each write
on at once, and holds file locks and shared mappings itself, so that SQLite's WAL index works.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final

import mfusepy

from bench.faults.powercut.rules import Call, Rules
from bench.faults.powercut.volume import Volume

_BLOCK_BYTES: Final = 4096
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_TRUNC


class Filesystem(mfusepy.Operations):  # type: ignore[misc]
    """The calls of FUSE, each first judged by the rules, then done by the volume."""

    use_ns = True

    def __init__(self, volume: Volume, rules: Rules, lock: Lock) -> None:
        self._volume = volume
        self._rules = rules
        self._lock = lock

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Attributes of a file or folder."""
        with self._lock:
            number, node, length = self._volume.node(path)
        return {
            "st_ino": number,
            "st_mode": node.mode,
            "st_nlink": 1 if node.entries is None else 2,
            "st_size": length,
            "st_blocks": -(-length // 512),
            "st_uid": node.uid,
            "st_gid": node.gid,
            "st_mtime": node.mtime_ns,
            "st_ctime": node.mtime_ns,
            "st_atime": node.mtime_ns,
        }

    def readdir(self, path: str, fh: int) -> list[tuple[str, dict[str, int], int]]:
        """The names in a folder, with their numbers: the C library skips a name with none."""
        with self._lock:
            listed = self._volume.listing(path)
        return [(name, {"st_ino": number, "st_mode": mode}, 0) for name, number, mode in listed]

    def statfs(self, path: str) -> dict[str, int]:
        """Size and free space."""
        with self._lock:
            total, used = self._volume.capacity_bytes, self._volume.used_bytes
        blocks, free = total // _BLOCK_BYTES, max(0, total - used) // _BLOCK_BYTES
        return {
            "f_bsize": _BLOCK_BYTES, "f_frsize": _BLOCK_BYTES, "f_blocks": blocks,
            "f_bfree": free, "f_bavail": free, "f_files": 1 << 20, "f_ffree": 1 << 20, "f_namemax": 255,
        }  # fmt: skip

    def create(self, path: str, mode: int, flags: int = 0) -> int:
        """Makes and opens a file."""
        with self._doing(Call.NAMES, path):
            return self._volume.create(path, mode)

    def mknod(self, path: str, mode: int, dev: int) -> int:
        """Makes a name that is no file, such as a socket's."""
        with self._doing(Call.NAMES, path):
            self._volume.make_special(path, mode)
        return 0

    def open(self, path: str, flags: int) -> int:
        """Opens a file that exists."""
        with self._doing(Call.OPEN_TO_WRITE if flags & _WRITING else Call.OPEN, path):
            number = self._volume.open(path)
            if flags & os.O_TRUNC:
                self._volume.resize(number, 0)
            return number

    def release(self, path: str, fh: int) -> int:
        """Closes a handle."""
        with self._lock:
            self._volume.release(fh)
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Bytes as last written."""
        with self._doing(Call.READ, path):
            return self._volume.read(fh, offset=offset, size=size)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Puts bytes into memory."""
        with self._doing(Call.WRITE, path):
            self._volume.write(fh, data, offset=offset)
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        """Sets the length."""
        with self._doing(Call.WRITE, path):
            self._volume.resize(self._volume.node(path)[0], length)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        """Makes a file durable; where it may not, what was to be written is forgotten, as Linux does."""
        try:
            with self._doing(Call.SYNC, path):
                self._volume.sync(fh)
        except OSError:
            with self._lock:
                self._volume.abandon(fh)
            raise
        return 0

    def fallocate(self, path: str, mode: int, offset: int, size: int, fh: int) -> int:
        """Sets space aside, as far as lengthening a file does that; no other mode is known."""
        if mode:
            raise OSError(errno.EOPNOTSUPP, "only plain allocation")
        with self._doing(Call.WRITE, path):
            self._volume.allocate(fh, offset + size)
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        """Makes the names of a folder durable."""
        with self._doing(Call.SYNC, path):
            self._volume.sync_folder(path)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        """Makes a folder."""
        with self._doing(Call.NAMES, path):
            self._volume.make_folder(path, mode)
        return 0

    def unlink(self, path: str) -> int:
        """Removes a file's name."""
        with self._doing(Call.NAMES, path):
            self._volume.remove(path)
        return 0

    def rmdir(self, path: str) -> int:
        """Removes an empty folder."""
        with self._doing(Call.NAMES, path):
            self._volume.remove_folder(path)
        return 0

    def rename(self, old: str, new: str) -> int:
        """Renames, replacing what was there."""
        with self._doing(Call.NAMES, old):
            self._volume.rename(old, new)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        """Sets the mode; not part of what a power cut takes back exactly."""
        with self._lock:
            node = self._volume.node(path)[1]
            node.mode = node.mode & ~0o7777 | mode & 0o7777
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        """Sets the owner; as `chmod`."""
        with self._lock:
            node = self._volume.node(path)[1]
            node.uid, node.gid = _unless_kept(uid, node.uid), _unless_kept(gid, node.gid)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        """Sets the time of the last change."""
        with self._lock:
            self._volume.node(path)[1].mtime_ns = time.time_ns() if times is None else times[1]
        return 0

    def getxattr(self, path: str, name: str, position: int = 0) -> bytes:
        """There are none; said once, the kernel asks no more."""
        raise OSError(errno.ENOSYS, "no extended attributes")

    @contextmanager
    def _doing(self, call: Call, path: str) -> Iterator[None]:
        """Waits as the rules say, outside the lock, so that a slow disk holds up its caller alone."""
        delay_s, error = self._rules.judge(call, path)
        if delay_s:
            time.sleep(delay_s)
        if error is not None:
            raise error
        with self._lock:
            yield


def serve(filesystem: Filesystem, mount: Path) -> None:
    """Mounts the file system and returns when it is unmounted."""
    mfusepy.FUSE(
        filesystem,
        str(mount),
        foreground=True,
        kernel_cache=True,
        use_ino=True,
        default_permissions=True,
        fsname="powercut",
        attr_timeout=60,
        entry_timeout=60,
    )


def _unless_kept(value: int, now: int) -> int:
    return now if value in {-1, 0xFFFFFFFF} else value
