"""The names of a volume: as they are now, as a power cut would leave them, and the changes between.

Changes form one ordered log, like the journal of ext4: making one durable makes all before it durable.
"""

from __future__ import annotations

import random
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = 1
_FILE: Final = "names.json"


class NamesBy(Enum):
    """Which sync makes a new, changed or removed name durable."""

    FOLDER = "folder"
    """That of the folder, and nothing less: all that POSIX promises."""
    JOURNAL = "journal"
    """Any sync on the volume: what ext4 does."""


class Node(msgspec.Struct):
    """A file or a folder; `entries` is None for a file."""

    mode: int
    entries: dict[str, int] | None = None
    uid: int = 0
    gid: int = 0
    mtime_ns: int = 0


class Saved(msgspec.Struct):
    """What a power cut leaves of the names."""

    nodes: dict[int, Node]
    next_number: int


@dataclass(frozen=True, slots=True)
class Edit:
    """One entry of a folder set to a node, or removed (`number` is None)."""

    folder: int
    name: str
    number: int | None


@dataclass(slots=True)
class Names:
    """The tree. Everything here is in memory but `commit`, which writes the durable names.

    Nodes without a name stay in memory: an open file may still use them, and they are few.
    """

    store: Path
    live: dict[int, Node] = field(default_factory=dict)
    _durable: dict[int, Node] = field(default_factory=dict)
    _log: list[tuple[Edit, ...]] = field(default_factory=list)
    _next: int = ROOT + 1

    @classmethod
    def load(cls, store: Path) -> Names:
        """The names that the last power cut left, or those of an empty volume."""
        path = store / _FILE
        if not path.exists():
            first = Names(store, {ROOT: _root()}, {ROOT: _root()})
            first._save()
            return first
        saved = msgspec.json.decode(path.read_bytes(), type=Saved)
        again = msgspec.json.decode(path.read_bytes(), type=Saved)
        return Names(store, saved.nodes, again.nodes, [], saved.next_number)

    def find(self, path: str) -> int:
        """The number of the node at a path; raises FileNotFoundError or NotADirectoryError."""
        number = ROOT
        for name in filter(None, path.split("/")):
            number = self.entries(number).get(name, 0)
            if not number:
                raise FileNotFoundError(2, "no such file", path)
        return number

    def entries(self, folder: int) -> dict[str, int]:
        """The names in a folder; raises NotADirectoryError."""
        found = self.live[folder].entries
        if found is None:
            raise NotADirectoryError(20, "not a folder")
        return found

    def add(self, folder: int, name: str, node: Node) -> int:
        """A new node under a name; returns its number."""
        number, self._next = self._next, self._next + 1
        self.live[number] = node
        self.change(Edit(folder, name, number))
        return number

    def change(self, *edits: Edit) -> None:
        """Changes names now, together; durable is that only after `commit`."""
        for edit in edits:
            _apply(self.live, edit)
        self._log.append(edits)

    def hide(self, removed: Edit, hidden: Edit) -> None:
        """As `change`, but what a power cut may leave is the removal alone."""
        _apply(self.live, removed)
        _apply(self.live, hidden)
        self._log.append((removed,))

    def named(self) -> set[int]:
        """The numbers to which a name leads now."""
        return set(_walk(self.live))

    def pending(self) -> int:
        """How many changes a power cut would take back."""
        return len(self._log)

    def commit(self, *, touching: int | None = None) -> list[int]:
        """Makes the log durable up to its last change in the folder `touching` (all of it: None).

        Returns the numbers that no durable name leads to any more.
        """
        upto = len(self._log)
        while touching is not None and upto and not _touches(self._log[upto - 1], touching):
            upto -= 1
        return self._commit_first(upto)

    def tear(self, rng: random.Random) -> None:
        """Lets the oldest changes survive, as many as chance says."""
        self._commit_first(rng.randint(0, len(self._log)))

    def reachable(self) -> set[int]:
        """The numbers to which a durable name leads."""
        return set(_walk(self._durable))

    def _commit_first(self, count: int) -> list[int]:
        if not count:
            return []
        before = self.reachable()
        for edits in self._log[:count]:
            for edit in edits:
                if edit.number is not None and edit.number not in self._durable:
                    node = self.live[edit.number]
                    empty: dict[str, int] | None = None if node.entries is None else {}
                    self._durable[edit.number] = Node(node.mode, empty, node.uid, node.gid)
                _apply(self._durable, edit)
        del self._log[:count]
        self._save()
        return sorted(before - self.reachable())

    def _save(self) -> None:
        kept = {number: self._durable[number] for number in self.reachable()}
        fresh = self.store / f"{_FILE}.new"
        fresh.write_bytes(msgspec.json.encode(Saved(kept, self._next)))
        fresh.replace(self.store / _FILE)


def _root() -> Node:
    return Node(stat.S_IFDIR | 0o755, {})


def _apply(nodes: dict[int, Node], edit: Edit) -> None:
    entries = nodes[edit.folder].entries
    assert entries is not None
    if edit.number is None:
        entries.pop(edit.name, None)
    else:
        entries[edit.name] = edit.number


def _touches(edits: tuple[Edit, ...], folder: int) -> bool:
    return any(edit.folder == folder for edit in edits)


def _walk(nodes: dict[int, Node], number: int = ROOT) -> Iterator[int]:
    yield number
    for child in (nodes[number].entries or {}).values():
        yield from _walk(nodes, child)
