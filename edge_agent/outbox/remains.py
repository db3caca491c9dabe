"""A damaged file, read as far as it can be read: what cannot is stepped over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from contract.messages import Gap
from contract.status import Lane
from edge_agent.errors import StoreError
from edge_agent.outbox import recall
from edge_agent.outbox.database import Database, Durability, check_readable
from edge_agent.outbox.head import Head, unpack_head
from edge_agent.outbox.records import COLUMNS, Record, unseal
from edge_agent.types import Packets

T = TypeVar("T")

SLICE: Final = 4000
"""Most rows read at once, and copied in one transaction."""
_SLICE_BYTES: Final = 1024 * 1024
_MAX_SKIP: Final = 1 << 20
_MAX_FAILURES: Final = 20_000


class Remains:
    """What is left of a file; opening it may fail with StoreError, and then it holds nothing."""

    def __init__(self, path: Path) -> None:
        self._db: Database | None = None
        try:
            check_readable(path)
            self._db = Database.open(
                path, schema="", quota_bytes=1 << 40, durability=Durability.KILL, prepare=False
            )
        except StoreError:
            return

    def head(self) -> Head | None:
        """The old counters, or None when they are damaged."""
        found = self._tolerant("SELECT body, sum FROM head WHERE id = 1")
        return unpack_head(*found[0]) if found else None

    def rows(self, lane: Lane, *, last: int) -> Iterator[Record]:
        """The sound rows of a lane in order, up to `last` where the file does not tell its end."""
        last = self._last(lane, last)
        after, skip, failures, sound_from = 0, 1, 0, 0
        while self._db is not None and after < last and failures < _MAX_FAILURES:
            found = self._slice(lane, after)
            if found is None:
                failures += 1
                after, skip = after + skip, min(skip * 2, _MAX_SKIP)
                continue
            if skip > 1 and after > sound_from + 1:
                # The steps grow: somewhere between the last failure and here sound rows begin.
                after = self._first_sound(lane, max(after - skip // 2, sound_from), after)
                found = self._slice(lane, after) or []
            skip = 1
            if not found:
                return
            for row in found:
                record = unseal(row)
                if record is not None and record.seq > after:
                    yield record
            after = max(after + 1, *(row[0] for row in found))
            sound_from = after

    def _last(self, lane: Lane, last: int) -> int:
        told = self._tolerant(f"SELECT seq FROM {lane} ORDER BY seq DESC LIMIT 1")
        return min(last, told[0][0]) if told and isinstance(told[0][0], int) else last

    def _first_sound(self, lane: Lane, low: int, high: int) -> int:
        """The lowest number between a failure and a success after which rows can be read."""
        while high - low > 1:
            middle = (low + high) // 2
            if self._slice(lane, middle, most=1):
                high = middle
            else:
                low = middle
        return high

    def _slice(self, lane: Lane, after: int, *, most: int = SLICE) -> list[tuple[Any, ...]] | None:
        """The next rows up to the first page that cannot be read; None when that is the next."""
        found: list[tuple[Any, ...]] = []
        size = 0
        assert self._db is not None
        try:
            for row in self._db.scan(
                f"SELECT {COLUMNS} FROM {lane} WHERE seq > ? ORDER BY seq LIMIT {most}", (after,)
            ):
                found.append(row)
                size += len(row[9]) if isinstance(row[9], bytes) else 0
                if size >= _SLICE_BYTES:
                    break
        except StoreError:
            return found or None
        return found

    def checkpoints(self) -> dict[str, tuple[int, bytes]]:
        """The sound checkpoints."""
        return self._or_empty(recall.load_checkpoints, {})

    def pending(self) -> list[tuple[str, bytes]]:
        """The sound pending verdicts."""
        return self._or_empty(recall.load_pending, [])

    def packets(self) -> list[Packets]:
        """The sound packet entries."""
        return self._or_empty(lambda db: recall.load_packets(db)[0], [])

    def gaps(self) -> list[Gap]:
        """The gap records that were not known to be applied."""
        found = self._tolerant("SELECT lane, first, last, stride, readings, reason FROM gaps")
        lanes = {lane.value for lane in Lane}
        return [Gap(Lane(row[0]), *row[1:]) for row in found if row[0] in lanes]

    def close(self) -> None:
        """Closes the file."""
        if self._db is None:
            return
        try:
            self._db.close()
        except StoreError:
            return
        finally:
            self._db = None

    def _tolerant(self, statement: str) -> list[tuple[Any, ...]]:
        return self._or_empty(lambda db: db.rows(statement), [])

    def _or_empty(self, load: Callable[[Database], T], empty: T) -> T:
        if self._db is None:
            return empty
        try:
            return load(self._db)
        except StoreError:
            return empty
