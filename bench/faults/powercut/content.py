"""The bytes of one file: a live copy in memory, a durable one in the store, and what differs."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PAGE_BYTES: Final = 4096
SECTOR_BYTES: Final = 512


class Content:
    """Reads and writes happen in memory; only `sync` and `tear` change the durable file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._live = bytearray(path.read_bytes()) if path.exists() else bytearray()
        self._dirty: dict[int, None] = {}  # pages written since the last sync, oldest first
        self._cut_to: int | None = None  # the shortest length since the last sync
        self._durable = path.exists()

    def __len__(self) -> int:
        return len(self._live)

    @property
    def unsynced_bytes(self) -> int:
        """About how much a power cut would take."""
        return len(self._dirty) * PAGE_BYTES

    def read(self, offset: int, *, size: int) -> bytes:
        """Up to `size` bytes as they were last written, synced or not."""
        return bytes(self._live[offset : offset + size])

    def write(self, data: bytes, *, offset: int) -> None:
        """Puts bytes at an offset; a hole before them reads as zeros."""
        end = offset + len(data)
        if offset > len(self._live):
            self.resize(offset)
        self._live[offset:end] = data
        self._touch(offset, end)

    def resize(self, length: int) -> None:
        """Cuts the file off, or lengthens it with zeros."""
        now = len(self._live)
        if length < now:
            del self._live[length:]
            self._cut_to = length if self._cut_to is None else min(self._cut_to, length)
            last = -(-length // PAGE_BYTES)
            for page in [page for page in self._dirty if page >= last]:
                del self._dirty[page]
        elif length > now:
            self._live.extend(bytes(length - now))
            self._touch(now, length)

    def sync(self) -> None:
        """Makes everything durable: the bytes and the length."""
        if self._durable and not self._dirty and self._cut_to is None:
            return
        with _opened(self._path) as handle:
            if self._cut_to is not None:
                os.ftruncate(handle, self._cut_to)
            for page in self._dirty:
                self._store(handle, page)
            os.ftruncate(handle, len(self._live))
        self._dirty.clear()
        self._cut_to = None
        self._durable = True

    def abandon(self) -> None:
        """A sync that failed: as Linux does, the bytes stay readable and are taken for written.

        The next sync has nothing to do and says so; a power cut takes them all the same.
        """
        self._dirty.clear()
        self._cut_to = None

    def tear(self, rng: random.Random) -> None:
        """Lets some of the unsynced pages survive: any of them, and one perhaps by some sectors only.

        A disk may have written any page back before the cut, in any order.
        """
        survivors = [page for page in self._dirty if rng.random() < 0.5]
        cut = self._cut_to is not None and rng.random() < 0.5
        if not survivors and not cut:
            return
        with _opened(self._path) as handle:
            if cut and self._cut_to is not None:
                os.ftruncate(handle, self._cut_to)
            for page in survivors[:-1]:
                self._store(handle, page)
            for page in survivors[-1:]:
                self._store(handle, page, limit=rng.randrange(1, 9) * SECTOR_BYTES)

    def discard(self) -> None:
        """Removes the durable copy: no name leads to it any more."""
        self._path.unlink(missing_ok=True)

    def _touch(self, begin: int, end: int) -> None:
        for page in range(begin // PAGE_BYTES, -(-end // PAGE_BYTES)):
            self._dirty[page] = None

    def _store(self, handle: int, page: int, *, limit: int = PAGE_BYTES) -> None:
        begin = page * PAGE_BYTES
        os.pwrite(handle, self._live[begin : begin + limit], begin)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The descriptor of the durable file for the length of a block."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)
