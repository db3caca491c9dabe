"""Which asks run together, and which are given up, so that most answers are in time. Pure: no clock, no loop.

Rules, in this order, whenever the executor is free:

1. What has expired is dropped.
2. The highest priority that waits is served; but a lower one that was passed over six times comes first,
   so that each of two lower ones gets at least one batch in eight.
3. Within a priority the earliest deadline comes first, in steps of 5 ms; within a step devices take turns.
4. While the head cannot make its deadline in a batch of the size that waits: if a full batch waits, or the
   head could not make it even alone, it is shed; else the batch shrinks until it can.
5. Free places up to the next bucket are filled from lower priorities.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from cloud_hub.inference.admission import Refusal
from cloud_hub.inference.cost import CostModel
from contract.status import Priority, Status

PASSED_OVER: Final = 6
TICK_S: Final = 0.005
ORDER: Final = (Priority.RT, Priority.STD, Priority.BULK)

Key = tuple[float, int, int]
"""Deadline in ticks, how many rows of this device waited already, running number."""


@dataclass(eq=False, slots=True)
class Item:
    """One ask in a queue. `deadline_s` may be infinite; `payload` is the caller's."""

    device: str
    request: str
    priority: Priority
    rows: int
    nbytes: int
    deadline_s: float
    arrived_s: float
    payload: Any = None
    probe: bool = False
    """Let in although the prediction was against it, because nothing else ran: how a forecast heals."""
    key: Key = field(default=(0.0, 0, 0))


@dataclass(frozen=True, slots=True)
class Taken:
    """What to run now, and what was given up on the way; both in order, neither again in the queue."""

    batch: tuple[Item, ...]
    expired: tuple[Item, ...]

    @property
    def rows(self) -> int:
        """The rows in the batch."""
        return sum(item.rows for item in self.batch)


class Batcher:
    """The queues of one model. Every item that was let in comes out once: taken, expired or cancelled."""

    def __init__(
        self,
        cost: CostModel,
        *,
        max_batch: int,
        max_rows: int,
        max_bytes: int,
        buckets: Iterable[int] = (),
    ) -> None:
        self.max_batch = max_batch
        self._cost = cost
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._buckets = sorted({size for size in buckets if size < max_batch} | {max_batch})
        self._queues: dict[Priority, list[tuple[Key, Item]]] = {each: [] for each in ORDER}
        self._rows = dict.fromkeys(ORDER, 0)
        self._bytes = 0
        self._waiting: dict[tuple[str, str], Item] = {}
        self._by_device: dict[str, int] = {}
        self._passed_over = dict.fromkeys(ORDER, 0)
        self._number = 0

    @property
    def backlog_rows(self) -> int:
        """Rows that wait."""
        return sum(self._rows.values())

    def offer(self, item: Item, *, now_s: float, busy_until_s: float) -> Refusal | None:
        """Lets the item in, or says why not; `busy_until_s` is when the running batch should end."""
        if item.rows > self.max_batch:
            return Refusal(
                Status.TOO_LARGE, f"{item.rows} rows; at most {self.max_batch} in one ask"
            )
        if item.deadline_s <= now_s:
            return Refusal(Status.EXPIRED, "the time was over when the ask arrived")
        item.key = self._key(item)
        finish_s = self._finish_s(item, now_s, busy_until_s)
        idle = not self._waiting and busy_until_s <= now_s
        if self.backlog_rows + item.rows > self._max_rows:
            return Refusal(
                Status.BUSY, "too many rows wait", self.predicted_wait_s(now_s, busy_until_s)
            )
        if self._bytes + item.nbytes > self._max_bytes and self._waiting:
            return Refusal(
                Status.BUSY, "too many bytes wait", self.predicted_wait_s(now_s, busy_until_s)
            )
        if finish_s > item.deadline_s:
            if not idle:
                return Refusal(
                    Status.BUSY, "it could not be done in time", finish_s - item.deadline_s
                )
            item.probe = True
        self._insert(item)
        return None

    def cancel(self, device: str, request: str) -> Item | None:
        """Takes an item out that still waits; None when it does not."""
        item = self._waiting.get((device, request))
        if item is not None:
            self._remove(item)
        return item

    def take(self, *, now_s: float) -> Taken:
        """The next batch by the rules above, at most `max_batch` rows; empty when nothing waits."""
        expired: list[Item] = []
        batch: list[Item] = []
        while not batch:
            for priority in ORDER:
                expired += self._drop_expired(priority, now_s)
            chosen = self._choose()
            if chosen is None:
                return Taken((), tuple(expired))
            batch = self._plan(chosen, now_s, expired)
        self._count_passed_over(batch[0].priority)
        for item in batch:
            self._remove(item)
        for item in self._fillers(batch, now_s):
            self._remove(item)
            batch.append(item)
        return Taken(tuple(batch), tuple(expired))

    def drain(self) -> tuple[Item, ...]:
        """Takes everything out, for the end."""
        items = tuple(self._waiting.values())
        for item in items:
            self._remove(item)
        return items

    def predicted_wait_s(self, now_s: float, busy_until_s: float) -> float:
        """How long a row that comes now with the lowest priority would wait for its batch."""
        full, rest = divmod(self.backlog_rows, self.max_batch)
        queued_s = full * self._cost.predict(self.max_batch) + (
            self._cost.predict(rest) if rest else 0
        )
        return max(busy_until_s - now_s, 0.0) + queued_s

    def _plan(self, priority: Priority, now_s: float, expired: list[Item]) -> list[Item]:
        """The batch that serves the head of a priority in time; sheds heads that cannot be served."""
        while self._queues[priority]:
            head = self._queues[priority][0][1]
            planned = list(self._prefix(priority, self.max_batch))
            left_s = head.deadline_s - now_s
            if self._cost.predict(sum(item.rows for item in planned)) <= left_s:
                return planned
            if head.probe:
                return [head]
            possible = min(self._cost.rows_within(left_s), self.max_batch)
            if self._rows[priority] >= self.max_batch or possible < head.rows:
                self._remove(head)
                expired.append(head)
                continue
            return list(self._prefix(priority, possible))
        return []

    def _prefix(self, priority: Priority, most_rows: int) -> Iterator[Item]:
        rows = 0
        for _, item in self._queues[priority]:
            rows += item.rows
            if rows > most_rows:
                return
            yield item

    def _fillers(self, batch: list[Item], now_s: float) -> list[Item]:
        rows = sum(item.rows for item in batch)
        bucket = next(size for size in self._buckets if size >= rows)
        deadline_s = min(item.deadline_s for item in batch)
        if now_s + self._cost.predict(bucket) > deadline_s:
            return []
        fillers: list[Item] = []
        for priority in ORDER[ORDER.index(batch[0].priority) + 1 :]:
            for _, item in self._queues[priority]:
                if rows >= bucket:
                    return fillers
                if item.deadline_s > now_s and rows + item.rows <= bucket:
                    fillers.append(item)
                    rows += item.rows
        return fillers

    def _choose(self) -> Priority | None:
        waiting = [priority for priority in ORDER if self._queues[priority]]
        for priority in reversed(waiting):
            if self._passed_over[priority] >= PASSED_OVER:
                return priority
        return waiting[0] if waiting else None

    def _count_passed_over(self, served: Priority) -> None:
        for priority in ORDER:
            if priority is served or not self._queues[priority]:
                self._passed_over[priority] = 0
            else:
                self._passed_over[priority] += 1

    def _drop_expired(self, priority: Priority, now_s: float) -> list[Item]:
        expired: list[Item] = []
        for (tick, _, _), item in self._queues[priority]:
            if tick * TICK_S > now_s:
                break
            if item.deadline_s <= now_s:
                expired.append(item)
        for item in expired:
            self._remove(item)
        return expired

    def _key(self, item: Item) -> Key:
        self._number += 1
        tick = math.inf if math.isinf(item.deadline_s) else math.floor(item.deadline_s / TICK_S)
        return (tick, self._by_device.get(item.device, 0), self._number)

    def _finish_s(self, item: Item, now_s: float, busy_until_s: float) -> float:
        """When the item should be done, if nobody more urgent comes."""
        ahead = 0
        for priority in ORDER[: ORDER.index(item.priority)]:
            ahead += self._rows[priority]
        queue = self._queues[item.priority]
        ahead += sum(each.rows for _, each in queue[: bisect_left(queue, item.key, key=_key_of)])
        full, rest = divmod(ahead, self.max_batch)
        if rest + item.rows > self.max_batch:
            full, rest = full + 1, 0
        run_s = full * self._cost.predict(self.max_batch) + self._cost.predict(rest + item.rows)
        return max(now_s, busy_until_s) + run_s

    def _insert(self, item: Item) -> None:
        insort(self._queues[item.priority], (item.key, item), key=_key_of)
        self._rows[item.priority] += item.rows
        self._bytes += item.nbytes
        self._waiting[item.device, item.request] = item
        self._by_device[item.device] = self._by_device.get(item.device, 0) + item.rows

    def _remove(self, item: Item) -> None:
        queue = self._queues[item.priority]
        del queue[bisect_left(queue, item.key, key=_key_of)]
        self._rows[item.priority] -= item.rows
        self._bytes -= item.nbytes
        del self._waiting[item.device, item.request]
        left = self._by_device[item.device] - item.rows
        if left:
            self._by_device[item.device] = left
        else:
            del self._by_device[item.device]


def _key_of(entry: tuple[Key, Item]) -> Key:
    return entry[0]
