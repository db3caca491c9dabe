"""Where the forwarder stands in one lane: read up to, acknowledged up to, and what goes again. Pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from contract.messages import Watermark
from edge_agent.outbox.packing import Message

MAX_REPAIRS = 256


_MOST_NUMBER = 2**53
_MOST_AHEAD = 100_000


def plausible(watermark: Watermark, *, next_seq: int) -> bool:
    """Whether a hub in its right mind could say this of a lane whose next number is `next_seq`.

    It may be a little ahead: the file may have lost its tail in a power cut. Far ahead, negative, or
    inverted is nonsense, and what it says must not be stored.
    """
    if not 0 <= watermark.applied <= min(next_seq + _MOST_AHEAD, _MOST_NUMBER):
        return False
    return all(0 < first <= last <= _MOST_NUMBER for first, last in watermark.missing)


class Cursor:
    """One lane. `position`: the last number read; `sent`: all up to it was acknowledged.

    Messages whose fate is unknown wait here in order and go again as they were.
    """

    def __init__(self, *, sent: int) -> None:
        self.position = sent
        self.sent = sent
        self.waiting: list[Message] = []
        self.repairs: list[tuple[int, int]] = []
        self.failures = 0
        self.failing_from_s = 0.0
        self.stalled = False
        self.paused_until_s = 0.0
        self.in_flight = 0
        self._done: dict[int, int] = {}
        self._suspect: set[int] = set()

    def finish(self, after: int, last: int) -> bool:
        """Notes that after..last needs no more sending; True when `sent` moved."""
        if last <= self.sent:
            return False
        self._done[max(after, self.sent) if after < self.sent < last else after] = last
        before = self.sent
        while self.sent in self._done:
            self.sent = self._done.pop(self.sent)
        return self.sent > before

    def send_again(self, message: Message) -> None:
        """Puts a message back, in the order of its numbers."""
        insort(self.waiting, message, key=lambda one: one.last)

    def applied(self, seq: int) -> None:
        """Forgets what the hub holds."""
        self.waiting = [one for one in self.waiting if one.last > seq]
        self.repairs = [(max(first, seq + 1), last) for first, last in self.repairs if last > seq]
        self.position = max(self.position, seq)
        if seq > self.sent:
            self.sent = seq
            self._done = {after: last for after, last in self._done.items() if last > seq}
            for after in sorted(self._done):
                if after <= self.sent:
                    self.sent = max(self.sent, self._done.pop(after))

    def repair(self, watermark: Watermark, *, reported_sent: int) -> None:
        """Queues what the hub lacks of what was acknowledged before it was asked.

        At once when nothing is on its way to the hub's database; else when two answers in a row say so,
        since the messages may still be in its hands.
        """
        wanted = [
            (first, min(last, reported_sent))
            for first, last in watermark.missing
            if first <= reported_sent
        ]
        at_once = watermark.pending == 0
        if not wanted and at_once and watermark.applied < reported_sent:
            wanted, at_once = [(watermark.applied + 1, reported_sent)], False
        seen = {first for first, _ in wanted}
        due = wanted if at_once else [one for one in wanted if one[0] in self._suspect]
        self._suspect = seen - {first for first, _ in due}
        self.repairs = merged([*self.repairs, *due])[:MAX_REPAIRS]

    def take_repair(self) -> tuple[int, int] | None:
        """Takes the next range to send again off the queue; what is not sent goes back by `put_back`."""
        return self.repairs.pop(0) if self.repairs else None

    def put_back(self, first: int, last: int) -> None:
        """Queues the rest of a range again."""
        if first <= last:
            self.repairs = merged([*self.repairs, (first, last)])


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers in the fewest ranges, sorted."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], last))
        else:
            result.append((first, last))
    return result
