"""Saves what is sound in a damaged spool into a new one, and declares the rest as gaps.

Rows keep their epoch and numbers, so that what the hub holds already is not stored twice. Numbers that
may have left the device (`handed`) are never given again. A hole's readings are counted exactly as long
as a row on each side of it, or the old counters, are sound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from contract.encoding import EncodingError, decode
from contract.messages import Gap
from contract.status import Lane, RowClass
from edge_agent.errors import StoreFull
from edge_agent.outbox import recall, shedding
from edge_agent.outbox.gaps import uncovered
from edge_agent.outbox.head import Head, Since
from edge_agent.outbox.records import COLUMNS, Record
from edge_agent.outbox.remains import SLICE, Remains
from edge_agent.outbox.spool import Spool
from edge_agent.outbox.statefile import Given
from edge_agent.outbox.transaction import Moment, Transaction
from edge_agent.types import Checkpoint

_UNKNOWN_ROWS: Final = 1 << 24
_MAX_HOLES: Final = 4096
_BATCH_BYTES: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class Salvage:
    """What became of a damaged spool."""

    rows: int
    readings: int
    lost_ranges: int
    lost_readings: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What `state.db` says of the damaged spool: handed and sent, and how much it held."""

    marks: Mapping[Lane, tuple[int, int]]
    given: Mapping[Lane, Given]

    def last(self, lane: Lane) -> int:
        """The highest number that is known to have been given."""
        noted = self.given.get(lane)
        return max(self.marks.get(lane, (0, 0))[0], noted.next_seq - 1 if noted else 0)


def salvage(remains: Remains, spool: Spool, *, memory: Memory, moment: Moment) -> Salvage:
    """Copies what is sound into a new, empty spool, in slices; returns the account."""
    old = remains.head()
    copier = _Copier(remains, spool, old, memory, moment)
    for lane in (Lane.EVT, Lane.TEL, Lane.BULK):
        copier.copy_lane(lane)
    with spool.transact(moment) as tx:
        copier.copy_state(tx)
        copier.set_numbers(tx)
        ranges, readings = copier.declare_holes(tx)
    return Salvage(copier.rows, copier.readings, ranges, readings)


class _Copier:
    def __init__(
        self,
        remains: Remains,
        spool: Spool,
        old: Head | None,
        memory: Memory,
        moment: Moment,
    ) -> None:
        self.remains = remains
        self.spool = spool
        self.old = old
        self.memory = memory
        self.moment = moment
        self.rows = 0
        self.readings = 0
        self._seen: dict[Lane, list[tuple[int, int, int]]] = {lane: [] for lane in Lane}

    def copy_lane(self, lane: Lane) -> None:
        last = self.old.lanes[lane].next_seq - 1 if self.old else self._most(lane)
        batch: list[Record] = []
        size = 0
        try:
            for record in self.remains.rows(lane, last=last):
                batch.append(record)
                size += record.cost
                if len(batch) >= SLICE or size >= _BATCH_BYTES:
                    self._insert(lane, batch)
                    batch, size = [], 0
            self._insert(lane, batch)
        except StoreFull:
            return  # what does not fit any more is declared as a hole

    def _most(self, lane: Lane) -> int:
        """A number that surely was not given, where the old counters are gone."""
        return self.memory.last(lane) + _UNKNOWN_ROWS

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
        for record in self.remains.rows(Lane.EVT, last=self._most(Lane.EVT)):
            if record.stored().kind is not RowClass.GAP:
                continue
            try:
                yield record.seq, decode(record.body, Gap)
            except EncodingError:
                continue

    def set_numbers(self, tx: Transaction) -> None:
        for lane, head in tx.head.lanes.items():
            before = self.old.lanes[lane] if self.old else None
            noted = self.memory.given.get(lane)
            if before is not None:
                head.next_seq = max(head.next_seq, before.next_seq)
                head.total = max(head.total, before.total)
                head.applied = before.applied
            elif noted is not None:
                head.applied = noted.applied
                head.total = max(head.total, noted.total)
            else:
                head.applied = max((self._seen[lane] or [(1, 0, 0)])[0][0] - 1, 0)
            head.next_seq = max(head.next_seq, self.memory.last(lane) + 1)
        if self.old is not None:
            tx.head.cuts = self.old.cuts
            tx.head.dead_letters = self.old.dead_letters
            tx.head.bad_rows = self.old.bad_rows
            tx.head.age_s = self.old.age_s
            tx.head.replaces = self.old.replaces
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
            for gap in self._declared(lane, self._holes(tx, lane)[:_MAX_HOLES]):
                tx.leave_gap(gap)
                ranges += 1
                readings += gap.readings
        return ranges, readings

    def _declared(self, lane: Lane, holes: list[_Hole]) -> Iterator[Gap]:
        """Gaps over the holes. What no neighbour tells, the counters tell of all of them together."""
        unknown = [hole for hole in holes if hole.readings is None]
        rest = self._lost_readings(lane)
        if rest is not None:
            rest = max(rest - sum(hole.readings or 0 for hole in holes), 0)
        for hole in holes:
            lost, sure = hole.readings, self.old is not None or lane in self.memory.given
            if lost is None:
                # The first takes all; which of several lost how many, nobody knows.
                lost = rest or 0 if hole is unknown[0] else 0
                sure = rest == 0 or (rest is not None and len(unknown) == 1)
            yield Gap(lane, hole.first, hole.last, 1, lost, "corrupt", exact=sure)

    def _lost_readings(self, lane: Lane) -> int | None:
        """How many readings the old counters know of and no salvaged row holds; None without them."""
        if self.old is None:
            return None
        held = sum(entry.readings for kind, entry in self.old.classes.items() if kind.lane is lane)
        return max(held - sum(row[2] for row in self._seen[lane]), 0)

    def _holes(self, tx: Transaction, lane: Lane) -> list[_Hole]:
        """Each undeclared hole above the applied mark."""
        head = tx.head.lanes[lane]
        holes: list[_Hole] = []
        after = head.applied
        total = 0 if after == 0 else self._total_at(lane, after)
        edges = [row for row in self._seen[lane] if row[0] > head.applied]
        for seq, before, held in [*edges, (head.next_seq, head.total, 0)]:
            if seq > after + 1:
                known = tx.gaps_of(lane, after + 1, seq - 1)
                lost = None if total is None else max(before - total, 0)
                if not known:
                    holes.append(_Hole(after + 1, seq - 1, lost))
                elif seq - after < _MAX_HOLES:
                    runs = uncovered(after + 1, seq - 1, held=(), gaps=known)
                    inside = all(gap.first > after and gap.last < seq for gap in known)
                    alone = len(runs) == 1 and inside and lost is not None
                    rest = max((lost or 0) - sum(gap.readings for gap in known), 0)
                    holes += [_Hole(run[0], run[-1], rest if alone else None) for run in runs]
            after, total = seq, before + held
        return holes

    def _total_at(self, lane: Lane, seq: int) -> int | None:
        """How many readings had entered the lane with row `seq`; None when nothing tells."""
        for number, before, readings in self._seen[lane]:
            if number == seq:
                return before + readings
            if number == seq + 1:
                return before
        return None


class _Hole(NamedTuple):
    """Numbers that are neither salvaged nor declared; `readings` is None where no neighbour tells."""

    first: int
    last: int
    readings: int | None
