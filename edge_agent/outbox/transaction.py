"""One transaction on the spool: rows in, rows out, gap records, and the counters that follow.

Works on a copy of the head; the spool adopts the copy when the transaction is on the disk, and drops
it when not. Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from contract.encoding import encode
from contract.messages import Gap
from contract.status import Lane, RowClass
from edge_agent.outbox.database import Database
from edge_agent.outbox.gaps import Dropped, joined, stretches
from edge_agent.outbox.head import Head, pack_head
from edge_agent.outbox.records import COLUMNS, ROW_BYTES, Record, seal
from edge_agent.types import GivenUp, NewRow

GapKey = tuple[Lane, int, str]
_JOIN_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Moment:
    """When a transaction happens: UTC, and by the spool's own age."""

    wall_s: float
    age_s: float


class Victim(NamedTuple):
    """What must be known of a row to remove it."""

    seq: int
    kind: RowClass
    readings: int
    cost: int


class Transaction:
    """The changes of one transaction; valid inside `Database.transaction()`."""

    def __init__(
        self,
        db: Database,
        *,
        head: Head,
        moment: Moment,
        handed: Mapping[Lane, int],
        open_gaps: Mapping[GapKey, tuple[int, Gap]],
    ) -> None:
        self.db = db
        self.head = head
        self.moment = moment
        self.handed = handed
        self.open_gaps = dict(open_gaps)
        self._new: dict[Lane, list[Record]] = {lane: [] for lane in Lane}
        self._stale: set[Lane] = set()

    def add(self, row: NewRow) -> int:
        """Gives the row the next number of its lane; it is written by `flush`."""
        lane = self.head.lanes[row.kind.lane]
        record = seal(
            lane.next_seq,
            kind=row.kind,
            created=self.moment.wall_s,
            age=self.moment.age_s,
            before=lane.total,
            readings=row.readings,
            model=row.model,
            body=row.body,
        )
        self._new[row.kind.lane].append(record)
        lane.next_seq += 1
        lane.total += row.readings
        if not lane.first:
            lane.first, lane.oldest_s = record.seq, record.created
        self.count(row.kind, readings=row.readings, cost=record.cost)
        if row.kind.lane is Lane.TEL:
            since = self.head.since_floor
            since.rows += 1
            since.readings += row.readings
            since.bytes += record.cost
        return record.seq

    def count(self, kind: RowClass, *, readings: int, cost: int) -> None:
        """Counts a row that came in."""
        held = self.head.classes[kind]
        held.rows += 1
        held.readings += readings
        held.bytes += cost

    def flush(self) -> None:
        """Writes the rows that were added so far."""
        for lane, records in self._new.items():
            if records:
                self.db.run_many(
                    f"INSERT INTO {lane} ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)", records
                )
                self._new[lane] = []

    def remove(self, lane: Lane, victims: Sequence[Victim], *, shed: bool) -> None:
        """Deletes rows and counts them out; `shed` when the hub does not hold them."""
        self.db.run_many(f"DELETE FROM {lane} WHERE seq = ?", ((row.seq,) for row in victims))
        self.count_out(lane, victims, shed=shed)

    def count_out(self, lane: Lane, victims: Sequence[Victim], *, shed: bool) -> None:
        """Takes rows that were deleted from the counters."""
        for row in victims:
            held = self.head.classes[row.kind]
            held.rows = max(0, held.rows - 1)
            held.readings = max(0, held.readings - row.readings)
            held.bytes = max(0, held.bytes - row.cost)
            if shed:
                held.shed_rows += 1
                held.shed_readings += row.readings
        self._stale.add(lane)

    def leave_gaps(
        self,
        lane: Lane,
        dropped: Sequence[Dropped],
        *,
        held: Sequence[int],
        stride: int,
        reason: str,
    ) -> None:
        """Leaves the records that say what was given up; adjacent ones that are not sent yet merge."""
        for gap in stretches(dropped, held=held, lane=lane, stride=stride, reason=reason):
            self.leave_gap(gap)

    def skip(self, lost: GivenUp, *, reason: str) -> None:
        """Gives numbers to rows that were given up before they came here, and leaves their gap."""
        mark = self.head.lanes[lost.kind.lane]
        first = mark.next_seq
        mark.next_seq += lost.rows
        mark.total += lost.readings
        held = self.head.classes[lost.kind]
        held.shed_rows += lost.rows
        held.shed_readings += lost.readings
        last = mark.next_seq - 1
        self.leave_gap(Gap(lost.kind.lane, first, last, 1, lost.readings, reason))

    def leave_gap(self, gap: Gap) -> None:
        """Leaves one gap record as a row of the `evt` lane."""
        if gap.epoch:  # its numbers are not of this file
            self.add(NewRow(RowClass.GAP, encode(gap)))
            return
        key = (gap.lane, gap.stride, gap.reason)
        seq, old = self.open_gaps.get(key, (0, gap))
        if seq > self.handed[Lane.EVT] and self._nothing_between(old, gap):
            wider = joined(old, gap)
            if wider is not None and self._rewrite(seq, wider):
                self.open_gaps[key] = (seq, wider)
                return
        seq = self.add(NewRow(RowClass.GAP, encode(gap)))
        self.open_gaps[key] = (seq, gap)
        self.db.run(
            "INSERT OR REPLACE INTO gaps VALUES (?,?,?,?,?,?,?)",
            (seq, gap.lane, gap.first, gap.last, gap.stride, gap.readings, gap.reason),
        )

    def find_first(self, lane: Lane) -> None:
        """Looks up the lowest row of a lane after rows were deleted."""
        self.flush()
        lowest = self.db.rows(f"SELECT seq, created FROM {lane} ORDER BY seq LIMIT 1")
        mark = self.head.lanes[lane]
        mark.first, mark.oldest_s = lowest[0] if lowest else (0, None)
        self._stale.discard(lane)

    def close(self) -> tuple[bytes, int]:
        """Writes the rest and the counters; the last step before the end of the transaction."""
        self.flush()
        for lane in tuple(self._stale):
            self.find_first(lane)
        self.head.number += 1
        self.head.age_s = self.moment.age_s
        packed = pack_head(self.head)
        self.db.run("INSERT OR REPLACE INTO head (id, body, sum) VALUES (1, ?, ?)", packed)
        return packed

    def gaps_of(self, lane: Lane, first: int, last: int) -> list[Gap]:
        """The gap records that touch first..last of a lane and may not be applied yet."""
        return gaps_of(self.db, lane, first, last)

    def held(self, lane: Lane, first: int, last: int) -> list[int]:
        """The numbers of the rows held in first..last."""
        self.flush()
        found = self.db.rows(
            f"SELECT seq FROM {lane} WHERE seq BETWEEN ? AND ? ORDER BY seq", (first, last)
        )
        return [row[0] for row in found]

    def readings_between(self, lane: Lane, first: int, last: int) -> int | None:
        """How many readings the rows first..last held, told by their neighbours; None when unknown."""
        self.flush()
        low = self._readings_before(lane, first)
        high = self._readings_before(lane, last + 1)
        return high - low if low is not None and high is not None and high >= low else None

    def _readings_before(self, lane: Lane, seq: int) -> int | None:
        if seq == self.head.lanes[lane].next_seq:
            return self.head.lanes[lane].total
        for column, number in (("before", seq), ("before + readings", seq - 1)):
            found = self.db.rows(f"SELECT {column} FROM {lane} WHERE seq = ?", (number,))
            if found and isinstance(found[0][0], int):
                return found[0][0]
        return 0 if seq == 1 else None

    def _nothing_between(self, old: Gap, new: Gap) -> bool:
        """Whether one record over both would cover only numbers that neither device nor hub holds."""
        if not 0 < new.first - old.last <= _JOIN_ROWS:
            return False
        between = [
            seq
            for seq in range(old.last + 1, new.first)
            if old.stride <= 1 or seq % old.stride != 0
        ]
        if not between:
            return True
        if between[0] <= self.head.lanes[old.lane].applied:
            return False
        return not set(between) & set(self.held(old.lane, between[0], between[-1]))

    def _rewrite(self, seq: int, gap: Gap) -> bool:
        """Puts a wider gap into the row of a narrower one that nobody has seen yet."""
        self.flush()
        row = self.db.rows("SELECT created, age, before, length(body) FROM evt WHERE seq=?", (seq,))
        if not row:
            return False
        created, age, before, size = row[0]
        record = seal(
            seq,
            kind=RowClass.GAP,
            created=created,
            age=age,
            before=before,
            readings=0,
            model="",
            body=encode(gap),
        )
        self.db.run(f"INSERT OR REPLACE INTO evt ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)", record)
        self.db.run(
            "UPDATE gaps SET first=?, last=?, readings=? WHERE seq=?",
            (gap.first, gap.last, gap.readings, seq),
        )
        self.head.classes[RowClass.GAP].bytes += record.cost - size - ROW_BYTES
        return True


def gaps_of(db: Database, lane: Lane, first: int, last: int) -> list[Gap]:
    """The gap records that touch first..last of a lane and may not be applied yet."""
    found = db.rows(
        "SELECT lane, first, last, stride, readings, reason FROM gaps"
        " WHERE lane = ? AND last >= ? AND first <= ?",
        (lane, first, last),
    )
    return [Gap(Lane(row[0]), *row[1:]) for row in found]


def victims_of(rows: Iterable[tuple[Any, ...]], kinds: Mapping[int, RowClass]) -> list[Victim]:
    """The victims in (seq, kind, readings, bytes) columns; damaged columns count as nothing."""
    return [
        Victim(
            seq,
            kinds.get(kind, RowClass.RAW),
            readings if isinstance(readings, int) else 0,
            (size if isinstance(size, int) else 0) + ROW_BYTES,
        )
        for seq, kind, readings, size in rows
    ]
