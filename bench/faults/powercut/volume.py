"""A volume: names and contents together; what a program sees, and what a power cut leaves.

Promises: what was synced before the cut is there after it, what was not may be gone. All methods raise
OSError as the calls of a file system do. Not safe for threads: the caller holds one lock.
"""

from __future__ import annotations

import errno
import random
import stat
import time
from pathlib import Path
from typing import Final

from bench.faults.powercut.content import Content
from bench.faults.powercut.names import ROOT, Edit, Names, NamesBy, Node

_HIDDEN: Final = ".fuse_hidden"
"""So libfuse renames a file that is removed while it is open; to a disk it is removed."""


class Volume:
    """The file system without FUSE. `store` holds what is durable and nothing else."""

    def __init__(self, store: Path, *, names_by: NamesBy, capacity_bytes: int) -> None:
        (store / "content").mkdir(parents=True, exist_ok=True)
        self.capacity_bytes = capacity_bytes
        self._store = store
        self._names_by = names_by
        self._names = Names.load(store)
        self._contents: dict[int, Content] = {}
        self._opened: dict[int, int] = {}
        self._used = 0
        durable = self._names.reachable()
        for path in (store / "content").iterdir():
            if int(path.name) in durable:
                self._used += path.stat().st_size
            else:  # a file that was synced, and whose name was not
                path.unlink()

    @property
    def used_bytes(self) -> int:
        """Bytes of all files."""
        return self._used

    def unsynced(self) -> dict[str, int]:
        """What a power cut would take now."""
        dirty = sum(content.unsynced_bytes for content in self._contents.values())
        return {"bytes": dirty, "names": self._names.pending()}

    def node(self, path: str) -> tuple[int, Node, int]:
        """Number, node and length of what is at a path."""
        number = self._names.find(path)
        node = self._names.live[number]
        return number, node, 0 if node.entries is not None else len(self._content(number))

    def listing(self, path: str) -> list[tuple[str, int, int]]:
        """Name, number and mode of everything in a folder, itself and the one above included."""
        folder = self._names.find(path)
        entries = {".": folder, "..": folder, **self._names.entries(folder)}
        return [(name, number, self._names.live[number].mode) for name, number in entries.items()]

    def create(self, path: str, mode: int) -> int:
        """A new empty file, open; returns its number."""
        folder, name = self._place(path)
        number = self._names.add(folder, name, _made(stat.S_IFREG | mode & 0o7777, None))
        return self._open(number)

    def make_special(self, path: str, mode: int) -> None:
        """A new name of a socket or a pipe; the kernel does the rest."""
        folder, name = self._place(path)
        self._names.add(folder, name, _made(mode, None))

    def make_folder(self, path: str, mode: int) -> None:
        """A new empty folder."""
        folder, name = self._place(path)
        self._names.add(folder, name, _made(stat.S_IFDIR | mode & 0o7777, {}))

    def open(self, path: str) -> int:
        """The number of the file at a path, kept until `release`."""
        number = self._names.find(path)
        if self._names.live[number].entries is not None:
            raise IsADirectoryError(errno.EISDIR, "is a folder", path)
        return self._open(number)

    def release(self, number: int) -> None:
        """The other half of `open` and `create`."""
        self._opened[number] -= 1
        if not self._opened[number]:
            del self._opened[number]
            self._forget_unnamed(number)

    def read(self, number: int, *, offset: int, size: int) -> bytes:
        """Bytes of a file, as last written."""
        return self._content(number).read(offset, size=size)

    def write(self, number: int, data: bytes, *, offset: int) -> None:
        """Writes into memory; raises ENOSPC when the volume is full."""
        content = self._content(number)
        self._grow(content, max(len(content), offset + len(data)))
        content.write(data, offset=offset)
        self._names.live[number].mtime_ns = time.time_ns()

    def resize(self, number: int, length: int) -> None:
        """Cuts off or lengthens a file."""
        content = self._content(number)
        self._grow(content, length)
        content.resize(length)
        self._names.live[number].mtime_ns = time.time_ns()

    def allocate(self, number: int, length: int) -> None:
        """Makes a file at least so long, or raises ENOSPC; the new bytes read as zeros."""
        if length > len(self._content(number)):
            self.resize(number, length)

    def rename(self, old: str, new: str) -> None:
        """Gives a file or folder another name; what had the new name is gone. Both happen together."""
        folder, name = self._parent(old)
        number = self._names.find(old)
        target, target_name = self._parent(new)
        replaced = self._names.entries(target).get(target_name)
        if replaced is not None and self._names.live[replaced].entries is not None:
            raise OSError(errno.ENOTEMPTY, "a folder has that name", new)
        if target_name.startswith(_HIDDEN):
            self._names.hide(Edit(folder, name, None), Edit(target, target_name, number))
        else:
            self._names.change(Edit(folder, name, None), Edit(target, target_name, number))
        if replaced is not None:
            self._forget_unnamed(replaced)

    def remove(self, path: str) -> None:
        """Removes the name of a file."""
        folder, name = self._parent(path)
        number = self._names.find(path)
        if self._names.live[number].entries is not None:
            raise IsADirectoryError(errno.EISDIR, "is a folder", path)
        self._names.change(Edit(folder, name, None))
        self._forget_unnamed(number)

    def remove_folder(self, path: str) -> None:
        """Removes an empty folder."""
        folder, name = self._parent(path)
        if self._names.entries(self._names.find(path)):
            raise OSError(errno.ENOTEMPTY, "the folder is not empty", path)
        self._names.change(Edit(folder, name, None))

    def sync(self, number: int) -> None:
        """Makes a file's bytes and length durable, and by `NamesBy.JOURNAL` all names."""
        self._content(number).sync()
        if self._names_by is NamesBy.JOURNAL:
            self._drop(self._names.commit())

    def abandon(self, number: int) -> None:
        """The sync of a file failed: what it should have stored is never stored unless written anew."""
        self._content(number).abandon()

    def sync_folder(self, path: str) -> None:
        """Makes the names in a folder durable, with all changes of names before the last of them."""
        folder = self._names.find(path)
        touching = folder if self._names_by is NamesBy.FOLDER else None
        self._drop(self._names.commit(touching=touching))

    def tear(self, rng: random.Random) -> None:
        """Lets chance make some of what is unsynced durable, as a disk may have before a cut."""
        for number in sorted(self._contents):
            self._contents[number].tear(rng)
        self._names.tear(rng)

    def _place(self, path: str) -> tuple[int, str]:
        folder, name = self._parent(path)
        if name in self._names.entries(folder):
            raise FileExistsError(errno.EEXIST, "exists already", path)
        return folder, name

    def _parent(self, path: str) -> tuple[int, str]:
        above, _, name = path.rpartition("/")
        return (self._names.find(above) if above else ROOT), name

    def _open(self, number: int) -> int:
        self._opened[number] = self._opened.get(number, 0) + 1
        return number

    def _content(self, number: int) -> Content:
        if number not in self._contents:
            self._contents[number] = Content(self._store / "content" / str(number))
        return self._contents[number]

    def _grow(self, content: Content, length: int) -> None:
        more = length - len(content)
        if more > 0 and self._used + more > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "the volume is full")
        self._used += more

    def _forget_unnamed(self, number: int) -> None:
        """Frees the memory of a file that nobody can reach any more; its durable copy may have to stay."""
        if number in self._opened or number in self._names.named():
            return
        content = self._content(number)
        del self._contents[number]
        self._used -= len(content)
        if number not in self._names.reachable():
            content.discard()

    def _drop(self, numbers: list[int]) -> None:
        for number in numbers:
            if number not in self._contents:
                (self._store / "content" / str(number)).unlink(missing_ok=True)


def _made(mode: int, entries: dict[str, int] | None) -> Node:
    return Node(mode, entries, mtime_ns=time.time_ns())
