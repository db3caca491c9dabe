"""Saves what is sound in a damaged spool into a new one, and declares the rest as gaps.

Rows keep their epoch and numbers, so that what the hub holds already is not stored twice. Numbers that
may have left the device (`handed`) are never given again. A hole's readings are counted exactly as long
as a row on each side of it, or the old counters, are sound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from contract.encoding import EncodingError, decode
from contract.messages import Gap
from contract.status import Lane, RowClass
from edge_agent.errors import StoreError, StoreFull
from edge_agent.outbox import recall, shedding
from edge_agent.outbox.database import Database, Durability
from edge_agent.outbox.gaps import uncovered
from edge_agent.outbox.head import Head, Since, unpack_head
from edge_agent.outbox.records import COLUMNS, Record, unseal
from edge_agent.outbox.spool import Spool
from edge_agent.outbox.transaction import Moment, Transaction
from edge_agent.types import Checkpoint, Packets

T = TypeVar("T")

_SLICE: Final = 500
_MAX_SKIP: Final = 1 << 20
_MAX_HOLES: Final = 4096


@dataclass(frozen=True, slots=True)
class Salvage:
    """What became of a damaged spool."""

    rows: int
    readings: int
    lost_ranges: int
    lost_readings: int


class Remains:
    """A damaged file, read as far as it can be read; opening it may fail with StoreError."""

    def __init__(self, path: Path) -> None:
        self._db: Database | None = None
        try:
            self._db = Database.open(
                path, schema="", quota_bytes=1 << 40, durability=Durability.KILL
            )
        except StoreError:
            return

    def head(self) -> Head | None:
        """The old counters, or None when they are damaged."""
        found = self._tolerant("SELECT body, sum FROM head WHERE id = 1")
        return unpack_head(*found[0]) if found else None

    def rows(self, lane: Lane, *, last: int) -> Iterator[Record]:
        """The sound rows of a lane in order; damaged pages are stepped over."""
        after, skip = 0, 1
        while self._db is not None and after < last:
            try:
                found = self._db.rows(
                    f"SELECT {COLUMNS} FROM {lane} WHERE seq > ? ORDER BY seq LIMIT {_SLICE}",
                    (after,),
                )
            except StoreError:
                found = self._one_by_one(lane, after)
                if not found:
                    after, skip = after + skip, min(skip * 2, _MAX_SKIP)
                    continue
            if not found:
                return
            skip = 1
            for row in found:
                record = unseal(row)
                if record is not None and record.seq > after:
                    yield record
            after = max(after + 1, *(row[0] for row in found))

    def _one_by_one(self, lane: Lane, after: int) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        assert self._db is not None
        try:
            found.extend(
                self._db.scan(
                    f"SELECT {COLUMNS} FROM {lane} WHERE seq > ? ORDER BY seq LIMIT {_SLICE}",
                    (after,),
                )
            )
        except StoreError:
            return found
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

    def _tolerant(self, statement: str) -> list[tuple[Any, ...]]:
        return self._or_empty(lambda db: db.rows(statement), [])

    def _or_empty(self, load: Callable[[Database], T], empty: T) -> T:
        if self._db is None:
            return empty
        try:
            return load(self._db)
        except StoreError:
            return empty


def salvage(
    remains: Remains, spool: Spool, *, handed: Mapping[Lane, int], moment: Moment
) -> Salvage:
    """Copies what is sound into a new, empty spool, in slices; returns the account."""
    old = remains.head()
    copier = _Copier(remains, spool, old, moment)
    for lane in (Lane.EVT, Lane.TEL, Lane.BULK):
        copier.copy_lane(lane)
    with spool.transact(moment) as tx:
        copier.copy_state(tx)
        copier.set_numbers(tx, handed)
        ranges, readings = copier.declare_holes(tx)
    return Salvage(copier.rows, copier.readings, ranges, readings)


class _Copier:
    def __init__(self, remains: Remains, spool: Spool, old: Head | None, moment: Moment) -> None:
        self.remains = remains
        self.spool = spool
        self.old = old
        self.moment = moment
        self.rows = 0
        self.readings = 0
        self._seen: dict[Lane, list[tuple[int, int, int]]] = {lane: [] for lane in Lane}

    def copy_lane(self, lane: Lane) -> None:
        last = self.old.lanes[lane].next_seq - 1 if self.old else 1 << 62
        batch: list[Record] = []
        try:
            for record in self.remains.rows(lane, last=last):
                batch.append(record)
                if len(batch) >= _SLICE:
                    self._insert(lane, batch)
                    batch = []
            self._insert(lane, batch)
        except StoreFull:
            return  # what does not fit any more is declared as a hole

    def _insert(self, lane: Lane, batch: list[Record]) -> None:
        if not batch:
            return
        need = sum(record.cost for record in batch)
        with self.spool.transact(self.moment) as tx:
            if not shedding.make_room(tx, need_bytes=need):
                raise StoreFull("the salvaged rows fill the quota")
            tx.db.run_many(
                f"INSERT OR IGNORE INTO {lane} ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)", batch
            )
            for record in batch:
                tx.count(record.stored().kind, readings=record.readings, cost=record.cost)
            head = tx.head.lanes[lane]
            head.first = head.first or batch[0].seq
            head.oldest_s = head.oldest_s or batch[0].created
            head.next_seq = max(head.next_seq, batch[-1].seq + 1)
            head.total = max(head.total, batch[-1].before + batch[-1].readings)
        self._seen[lane] += [(record.seq, record.before, record.readings) for record in batch]
        self.rows += len(batch)
        self.readings += sum(record.readings for record in batch)

    def copy_state(self, tx: Transaction) -> None:
        for stream, (seq, body) in self.remains.checkpoints().items():
            recall.write_checkpoints(tx.db, [Checkpoint(stream, body)], seq=seq)
        recall.write_pending(tx.db, self.remains.pending(), ())
        recall.PacketLog().write(tx.db, self.remains.packets())
        for seq, gap in self._gaps():
            tx.db.run(
                "INSERT OR REPLACE INTO gaps VALUES (?,?,?,?,?,?,?)",
                (seq, gap.lane, gap.first, gap.last, gap.stride, gap.readings, gap.reason),
            )

    def _gaps(self) -> Iterator[tuple[int, Gap]]:
        yield from ((-number, gap) for number, gap in enumerate(self.remains.gaps(), start=1))
        for record in self.remains.rows(Lane.EVT, last=1 << 62):
            if record.stored().kind is not RowClass.GAP:
                continue
            try:
                yield record.seq, decode(record.body, Gap)
            except EncodingError:
                continue

    def set_numbers(self, tx: Transaction, handed: Mapping[Lane, int]) -> None:
        for lane, head in tx.head.lanes.items():
            before = self.old.lanes[lane] if self.old else None
            if before is not None:
                head.next_seq = max(head.next_seq, before.next_seq)
                head.total = max(head.total, before.total)
                head.applied = before.applied
            else:
                head.applied = max((self._seen[lane] or [(1, 0, 0)])[0][0] - 1, 0)
            head.next_seq = max(head.next_seq, handed[lane] + 1)
        if self.old is not None:
            tx.head.cuts = self.old.cuts
            tx.head.dead_letters = self.old.dead_letters
            tx.head.bad_rows = self.old.bad_rows
            for kind, entry in self.old.classes.items():
                tx.head.classes[kind].shed_rows += entry.shed_rows
                tx.head.classes[kind].shed_readings += entry.shed_readings
            tx.head.floor = self.old.floor
        else:
            found = tx.db.rows("SELECT min(seq) FROM stream_state")[0][0]
            tx.head.floor = found or 0
        beyond = [row for row in self._seen[Lane.TEL] if row[0] > tx.head.floor]
        tx.head.since_floor = Since(len(beyond), sum(row[2] for row in beyond), 0)

    def declare_holes(self, tx: Transaction) -> tuple[int, int]:
        ranges = readings = 0
        for lane in (Lane.TEL, Lane.BULK, Lane.EVT):
            holes = self._holes(tx, lane)[:_MAX_HOLES]
            rest = self._lost_readings(lane) - sum(lost for _, _, lost in holes if lost is not None)
            for first, last, known in holes:
                lost = known
                if lost is None:
                    lost, rest = max(rest, 0), 0
                tx.leave_gap(Gap(lane, first, last, 1, lost, "corrupt"))
                ranges += 1
                readings += lost
        return ranges, readings

    def _lost_readings(self, lane: Lane) -> int:
        """How many readings the old counters know of and no salvaged row holds; 0 without them."""
        if self.old is None:
            return 0
        held = sum(entry.readings for kind, entry in self.old.classes.items() if kind.lane is lane)
        return max(held - sum(row[2] for row in self._seen[lane]), 0)

    def _holes(self, tx: Transaction, lane: Lane) -> list[tuple[int, int, int | None]]:
        """First, last and readings (None: unknown) of each undeclared hole above the applied mark."""
        head = tx.head.lanes[lane]
        holes: list[tuple[int, int, int | None]] = []
        after = head.applied
        total: int | None = None
        edges = [row for row in self._seen[lane] if row[0] > head.applied]
        for seq, before, held in [*edges, (head.next_seq, head.total, 0)]:
            if seq > after + 1:
                known = tx.gaps_of(lane, after + 1, seq - 1)
                if not known:
                    lost = None if total is None or self.old is None else max(before - total, 0)
                    holes.append((after + 1, seq - 1, lost))
                elif seq - after < _MAX_HOLES:
                    runs = uncovered(after + 1, seq - 1, held=(), gaps=known)
                    holes += [(run[0], run[-1], None) for run in runs]
            after, total = seq, before + held
        return holes
