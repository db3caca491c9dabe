"""The commits that wait for the disk: in order, bounded in bytes and in messages not acknowledged.

While the disk cannot be written, `relieve` keeps the bounds: the oldest rows are given up by value, raw
readings first and alarms last. What is given up is counted in the commit that held it, so that it takes
its numbers and leaves its gap when the commit is stored. Messages stay unacknowledged as long as the
broker may have that many of them; then the oldest are released, after their raw readings were given up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from contract.status import RowClass
from edge_agent.outbox import recall
from edge_agent.outbox.retention import SHED_ORDER
from edge_agent.outbox.spool import size_of
from edge_agent.types import Commit, GivenUp, Packets, Round, Urgency

RELEASED: Final = -1
"""What a future tells whose messages may be acknowledged although its commit is not stored."""
_RELIEVED: Final = 7 / 8
"""What is left of a bound after it was reached, so that each relief is worth its walk."""
_MOST_IDS: Final = 32_768
"""Packet ids kept of commits that were given up: more than a broker has in flight."""
_SOON_S: Final = 1.0
_SOON_BYTES: Final = 256 * 1024


class Rank(Enum):
    """Whether a commit may be put together with its neighbour."""

    FULL = "full"
    """It still holds rows, or something else that must keep its place."""
    BARE = "bare"
    """Only packet ids and counts of what was given up are left of it."""


class Entry:
    """One commit, or several that were given up, and who waits for it."""

    def __init__(self, commit: Commit, future: asyncio.Future[int], *, now_s: float) -> None:
        self.commit = commit
        self.futures = [future]
        self.size = size_of(commit)
        self.messages = commit.messages
        self.since_s = now_s

    @property
    def rank(self) -> Rank:
        """Whether anything is left to lose."""
        one = self.commit
        kept = one.rows or one.checkpoints or one.pending or one.settled
        return Rank.FULL if kept or one.round is not Round.NONE else Rank.BARE

    def give_up(self, kind: RowClass) -> int:
        """Takes all rows of a class out, counted; returns how many bytes that gave."""
        going = [row for row in self.commit.rows if row.kind is kind]
        if not going:
            return 0
        lost = GivenUp(kind, len(going), sum(row.readings for row in going))
        self.commit = replace(
            self.commit,
            rows=tuple(row for row in self.commit.rows if row.kind is not kind),
            given_up=_summed((*self.commit.given_up, lost)),
        )
        return self._measure()

    def release(self) -> int:
        """Lets the broker forget the messages; returns how many."""
        self.settle(RELEASED)
        released, self.messages = self.messages, 0
        return released

    def settle(self, seq: int) -> None:
        """Tells all who wait."""
        for future in self.futures:
            if not future.done():
                future.set_result(seq)

    def absorb(self, other: Entry) -> int:
        """Takes over a bare entry that follows this bare one; returns how many bytes that gave."""
        before = self.size + other.size
        packets = recall.joined((*self.commit.packets, *other.commit.packets))
        self.commit = Commit(
            packets=tuple(_newest(one) for one in packets),
            given_up=_summed((*self.commit.given_up, *other.commit.given_up)),
        )
        self.futures += [future for future in other.futures if not future.done()]
        self.messages += other.messages
        self.size = size_of(self.commit)
        return before - self.size

    def _measure(self) -> int:
        before, self.size = self.size, size_of(self.commit)
        return before - self.size


class CommitQueue:
    """The waiting commits. Nothing here waits: `store.py` decides when to store and when to relieve."""

    def __init__(self, *, max_bytes: int, max_messages: int) -> None:
        self._max_bytes = max_bytes
        self._max_messages = max_messages
        self._entries: deque[Entry] = deque()
        self.bytes = 0
        self.messages = 0
        self._urgent = 0

    def __len__(self) -> int:
        """How many entries wait."""
        return len(self._entries)

    def add(self, commit: Commit, future: asyncio.Future[int], *, now_s: float) -> None:
        """Queues a commit behind all others."""
        entry = Entry(commit, future, now_s=now_s)
        self._entries.append(entry)
        self.bytes += entry.size
        self.messages += entry.messages
        self._urgent += commit.urgency is Urgency.NOW

    def due_in_s(self, now_s: float) -> float | None:
        """How soon something must be stored; None when nothing waits."""
        if not self._entries:
            return None
        if self._urgent or self.bytes >= _SOON_BYTES:
            return 0.0
        return max(self._entries[0].since_s + _SOON_S - now_s, 0.0)

    def group(self, max_bytes: int, *, most: int) -> list[Entry]:
        """The oldest entries that go into one transaction, at least one."""
        taken: list[Entry] = []
        size = 0
        for entry in self._entries:
            if taken and (size + entry.size > max_bytes or len(taken) >= most):
                break
            taken.append(entry)
            size += entry.size
        return taken

    def stored(self, group: Sequence[Entry], seqs: Sequence[int]) -> None:
        """Takes off the oldest entries, which are on the disk now, and tells who waits."""
        for entry, seq in zip(group, seqs, strict=True):
            head = self._entries.popleft()
            assert head is entry
            self.bytes -= entry.size
            self.messages -= entry.messages
            self._urgent -= entry.commit.urgency is Urgency.NOW
            entry.settle(seq)

    def over(self) -> bool:
        """Whether more waits than may."""
        return self.bytes > self._max_bytes or self.messages > self._max_messages

    def relieve(self, *, attempted: Sequence[Entry]) -> dict[RowClass, int]:
        """Gives up and releases until the bounds are kept again; returns the readings or rows given up.

        `attempted` are the oldest entries whose transaction may or may not be on the disk: they may lose
        rows like others, since they are stored whole or as they are now, but keep their number.
        """
        lost: dict[RowClass, int] = {}
        for kind in SHED_ORDER:
            for entry in self._entries:
                if self.bytes <= self._max_bytes * _RELIEVED:
                    break
                self._give_up(entry, kind, lost)
        for entry in self._entries:
            if self.messages <= self._max_messages * _RELIEVED:
                break
            self._give_up(entry, RowClass.RAW, lost)
            self.messages -= entry.release()
        self._put_together(len(attempted))
        return lost

    def abandon(self) -> None:
        """Cancels who waits for what will never be stored."""
        for entry in self._entries:
            for future in entry.futures:
                future.cancel()
        self._entries.clear()
        self.bytes = self.messages = self._urgent = 0

    def _give_up(self, entry: Entry, kind: RowClass, lost: dict[RowClass, int]) -> None:
        before = _count(entry.commit, kind)
        self.bytes -= entry.give_up(kind)
        gone = _count(entry.commit, kind) - before
        if gone:
            lost[kind] = lost.get(kind, 0) + gone

    def _put_together(self, spared: int) -> None:
        kept: deque[Entry] = deque()
        for index, entry in enumerate(self._entries):
            last = kept[-1] if index > spared and kept else None
            if last is not None and last.rank is entry.rank is Rank.BARE:
                self._urgent -= last.commit.urgency is Urgency.NOW
                self._urgent -= entry.commit.urgency is Urgency.NOW
                self.bytes -= last.absorb(entry)
                self._urgent += 1
            else:
                kept.append(entry)
        self._entries = kept


def _count(commit: Commit, kind: RowClass) -> int:
    return sum(one.readings or one.rows for one in commit.given_up if one.kind is kind)


def _summed(lost: Sequence[GivenUp]) -> tuple[GivenUp, ...]:
    """One count a class."""
    kinds: dict[RowClass, GivenUp] = {}
    for one in lost:
        so_far = kinds.get(one.kind, GivenUp(one.kind, 0, 0))
        kinds[one.kind] = GivenUp(one.kind, so_far.rows + one.rows, so_far.readings + one.readings)
    return tuple(kinds.values())


def _newest(one: Packets) -> Packets:
    if len(one.mids) <= _MOST_IDS:
        return one
    return Packets(one.session, one.mids[-_MOST_IDS:], one.hashes[-_MOST_IDS:])
