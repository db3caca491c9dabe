"""The spool: everything that a commit changes, in one file and one transaction.

Synchronous, for one thread; `store.py` owns it. A method either returns with its effect on the disk,
or raises StoreError (`database.py` sorts them) with no effect that a later read would see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from contract.messages import Gap, Watermark
from contract.status import Lane, RowClass
from edge_agent.errors import StoreFull
from edge_agent.outbox import dead_letters, recall, shedding
from edge_agent.outbox.budgets import DEFAULT_BUDGETS
from edge_agent.outbox.database import Database, Durability, StoreCorrupt, check_readable
from edge_agent.outbox.gaps import uncovered
from edge_agent.outbox.head import Head, Since, pack_head, unpack_head
from edge_agent.outbox.lost import lost_tail
from edge_agent.outbox.records import COLUMNS, ROW_BYTES, unseal
from edge_agent.outbox.retention import Budgets
from edge_agent.outbox.room import PAGE_BYTES
from edge_agent.outbox.schema import SPOOL_COLUMNS, SPOOL_SCHEMA
from edge_agent.outbox.statefile import Given
from edge_agent.outbox.transaction import GapKey, Moment, Transaction, gaps_of
from edge_agent.outbox.trimming import trim_slice
from edge_agent.types import Commit, Packets, Recovery, Round, StoredRow

SPOOL_FILE: Final = "spool.db"
DISK: Final = "disk"
"""The reason of what was given up in memory while the disk could not be written."""
_LESSER: Final = frozenset(RowClass) - {RowClass.ALARM, RowClass.GAP}
"""Classes for which no alarm is given up."""
_MAX_RANGES: Final = 64
_MAX_RANGE_ROWS: Final = 10_000
_MOST_UNTRIMMED: Final = 10_000


class Spool:
    """The open spool. `head` is what is on the disk and is never changed in place."""

    def __init__(self, db: Database, head: Head, *, budgets: Budgets) -> None:
        self.db = db
        self.head = head
        self._budgets = budgets
        self.handed: dict[Lane, int] = dict.fromkeys(Lane, 0)
        self.attempt: tuple[int, list[int]] = (0, [])
        self._open_gaps: dict[GapKey, tuple[int, Gap]] = {}
        self._packets: recall.PacketLog | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        quota_bytes: int,
        new_epoch: str,
        budgets: Budgets = DEFAULT_BUDGETS,
        durability: Durability = Durability.POWER_CUT,
    ) -> Spool:
        """Opens the spool, or makes one with `new_epoch`; raises StoreCorrupt when it must be set aside."""
        check_readable(path)
        db = Database.open(
            path, schema=SPOOL_SCHEMA, quota_bytes=quota_bytes, durability=durability
        )
        try:
            for table, columns in SPOOL_COLUMNS.items():
                db.rows(f"SELECT {columns} FROM {table} LIMIT 0")
            found = db.rows("SELECT body, sum FROM head WHERE id = 1")
            head = unpack_head(*found[0]) if found else Head(epoch=new_epoch)
            if head is None:
                raise StoreCorrupt(f"the counters of {path} are damaged")
            if not found and any(db.rows(f"SELECT seq FROM {lane} LIMIT 1") for lane in Lane):
                raise StoreCorrupt(f"the counters of {path} are gone")
            spool = cls(db, head, budgets=budgets)
            if not found:
                with spool.transact(Moment(wall_s=0.0, age_s=0.0)):
                    pass
        except BaseException:
            db.close()
            raise
        return spool

    def skip_handed(self, handed: Mapping[Lane, int], given: Mapping[Lane, Given]) -> None:
        """Never gives a number again that may have left the device; leaves a gap where one would.

        It happens when the file lost its tail: a torn log, or an old copy put back. `given` is what was
        noted beside the file.
        """
        gaps = [
            gap
            for lane, mark in self.head.lanes.items()
            if (gap := lost_tail(lane, mark, handed=handed.get(lane, 0), given=given.get(lane)))
        ]
        if gaps:
            with self.transact(Moment(wall_s=0.0, age_s=self.head.age_s)) as tx:
                for gap in gaps:
                    draft = tx.head.lanes[gap.lane]
                    draft.next_seq = gap.last + 1
                    draft.total += gap.readings
                for gap in gaps:
                    tx.leave_gap(gap)
        self.handed.update(handed)

    @contextmanager
    def transact(self, moment: Moment) -> Iterator[Transaction]:
        """A transaction; its head becomes the spool's when it is on the disk."""
        draft = unpack_copy(self.head)
        with self.db.transaction():
            tx = Transaction(
                self.db, head=draft, moment=moment, handed=self.handed, open_gaps=self._open_gaps
            )
            yield tx
            tx.close()
        self.head = draft
        self._open_gaps = tx.open_gaps

    def write(self, commits: Sequence[Commit], moment: Moment) -> list[int]:
        """Stores commits in order, whole; returns the last `tel` number after each of them.

        Sheds first where the quota asks for it. Raises StoreFull when even that leaves no room.
        """
        log = self._packet_log()
        seqs: list[int] = []
        need = sum(size_of(commit) for commit in commits)
        with self.transact(moment) as tx:
            lesser = any(row.kind in _LESSER for commit in commits for row in commit.rows)
            spared = {RowClass.ALARM} if lesser else set()
            if not shedding.make_room(tx, need_bytes=need, spared=spared):
                self._insist(tx, need)
            for commit in commits:
                for lost in commit.given_up:
                    tx.skip(lost, reason=DISK)
                for row in commit.rows:
                    tx.add(row)
                seqs.append(tx.head.lanes[Lane.TEL].next_seq - 1)
                _keep_state(tx, commit, seq=seqs[-1])
            packets = [one for commit in commits for one in commit.packets]
            noted = log.write(self.db, recall.joined(packets))
            gone = log.trim(self.db)
            tx.flush()
            shedding.keep_budgets(tx, self._budgets.shares)
            self.attempt = (tx.head.number + 1, seqs)
        for entry in noted:
            log.note(*entry)
        log.forget(gone)
        return seqs

    def _insist(self, tx: Transaction, need_bytes: int) -> None:
        """Lets a commit use the reserve only where it stays below the hard limit."""
        from_limit = (self.db.page_limit - tx.db.pages_used()) * PAGE_BYTES
        if need_bytes * 2 > from_limit:
            what = "disk's share" if self.db.confined else "quota"
            raise StoreFull(
                f"the {what} of {self.db.page_limit * PAGE_BYTES} bytes is used up by rows that must not be "
                "given up (alarms, or readings newer than the last checkpoint round)"
            )

    def read(
        self, lane: Lane, *, after: int, max_bytes: int, max_rows: int
    ) -> tuple[list[StoredRow], list[int]]:
        """The next sound rows of a lane, and the numbers of damaged ones met on the way."""
        rows: list[StoredRow] = []
        bad: list[int] = []
        size = 0
        for row in self.db.scan(
            f"SELECT {COLUMNS} FROM {lane} WHERE seq > ? ORDER BY seq LIMIT ?", (after, max_rows)
        ):
            record = unseal(row)
            if record is None:
                bad.append(row[0])
                continue
            size += len(record.body) + ROW_BYTES
            if rows and size > max_bytes:
                break
            rows.append(record.stored())
        return rows, bad

    def missed(self, lane: Lane, *, after: int, rows: Sequence[StoredRow]) -> list[range]:
        """Numbers between `after` and the rows read that are neither there nor declared.

        Without rows: up to the end of the lane. A damaged page can hide a row from a walk through the
        tree without any sign of it.
        """
        after = max(after, self.head.lanes[lane].applied)
        last = rows[-1].seq if rows else self.head.lanes[lane].next_seq - 1
        held = [row.seq for row in rows if row.seq > after]
        if len(held) >= last - after:
            return []
        gaps = gaps_of(self.db, lane, after + 1, last)
        return uncovered(after + 1, last, held=held, gaps=gaps)

    def declare_missed(self, lane: Lane, missed: Sequence[range], moment: Moment) -> None:
        """Leaves gaps for hidden rows; raises StoreCorrupt where one is found by its number after all."""
        with self.transact(moment) as tx:
            for run in missed:
                if tx.held(lane, run[0], run[-1]):
                    raise StoreCorrupt(f"rows of {lane} are found by number, not met in order")
                told = tx.readings_between(lane, run[0], run[-1])
                exact = told is not None
                tx.leave_gap(Gap(lane, run[0], run[-1], 1, told or 0, "corrupt", exact=exact))

    def apply(self, lane: Lane, watermark: Watermark, moment: Moment) -> None:
        """Notes what the hub's database holds; `trim` deletes it. Numbers nobody has leave a gap."""
        if watermark.epoch != self.head.epoch:
            return
        mark = self.head.lanes[lane]
        ahead = watermark.applied >= mark.next_seq
        if watermark.applied <= mark.applied and not watermark.missing:
            return
        with self.transact(moment) as tx:
            draft = tx.head.lanes[lane]
            if ahead:
                # The file lost its tail: never give a number again that the hub has seen.
                draft.next_seq = watermark.applied + 1
            draft.applied = max(draft.applied, watermark.applied)
            for first, last in watermark.missing[:_MAX_RANGES]:
                self._declare(tx, lane, first, min(last, draft.next_seq - 1))

    def _declare(self, tx: Transaction, lane: Lane, first: int, last: int) -> None:
        last = min(last, first + _MAX_RANGE_ROWS)
        if first > last:
            return
        held = tx.held(lane, first, last)
        if len(held) == last - first + 1:
            return
        known = tx.gaps_of(lane, first, last)
        for run in uncovered(first, last, held=held, gaps=known):
            told = tx.readings_between(lane, run[0], run[-1])
            tx.leave_gap(Gap(lane, run[0], run[-1], 1, told or 0, "lost", exact=told is not None))

    def trim(self, moment: Moment) -> None:
        """Deletes a slice of what the hub holds."""
        with self.transact(moment) as tx:
            trim_slice(tx)

    def set_aside(self, lane: Lane, seq: int, *, reason: str, moment: Moment) -> None:
        """Moves a row to the dead letters and leaves its gap; an unknown number is ignored."""
        with self.transact(moment) as tx:
            dead_letters.bury(tx, lane, seq, reason=reason)

    def quarantine(self, lane: Lane, seqs: Sequence[int], moment: Moment) -> None:
        """Moves damaged rows to the dead letters; raises StoreCorrupt where the tree itself is damaged."""
        with self.transact(moment) as tx:
            for seq in seqs:
                if not dead_letters.bury(tx, lane, seq, reason="bad_checksum"):
                    raise StoreCorrupt(f"row {seq} of {lane} is met in order, not found by number")

    def expire(self, moment: Moment) -> int:
        """Drops a slice of the rows that are too old; returns how many."""
        with self.transact(moment) as tx:
            return shedding.expire(tx, self._budgets)

    def declare_lost(self, epoch: str, gaps: Sequence[Gap], moment: Moment) -> None:
        """Leaves gap records for what the lost file of another epoch held, once."""
        if self.head.replaces == epoch:
            return
        with self.transact(moment) as tx:
            for gap in gaps:
                tx.leave_gap(gap)
            tx.head.replaces = epoch

    def given(self, *, exact: bool) -> dict[Lane, Given] | None:
        """How much lies in each lane above what the hub holds; None while too much waits to be trimmed."""
        evt = self.head.lanes[Lane.EVT]
        declared: dict[str, int] = dict(
            self.db.rows(
                "SELECT lane, sum(readings) FROM gaps WHERE seq > ? GROUP BY lane", (evt.applied,)
            )
        )
        found: dict[Lane, Given] = {}
        for lane, mark in self.head.lanes.items():
            if mark.applied - mark.first > _MOST_UNTRIMMED and mark.first:
                return None
            held = sum(
                entry.readings for kind, entry in self.head.classes.items() if kind.lane is lane
            )
            known = self.db.rows(
                f"SELECT sum(readings) FROM {lane} WHERE seq <= ?", (mark.applied,)
            )
            above = held - int(known[0][0] or 0) + int(declared.get(lane.value) or 0)
            found[lane] = Given(mark.next_seq, mark.applied, max(above, 0), mark.total, exact)
        return found

    def recover(self) -> Recovery:
        """What was known when the agent last stopped; takes as long as its answer is large."""
        packets = self._load_packets()
        return Recovery(
            epoch=self.head.epoch,
            checkpoints=recall.load_checkpoints(self.db),
            rows=tuple(recall.load_raw_rows(self.db, after=self.head.floor)),
            packets=tuple(packets),
            pending=tuple(recall.load_pending(self.db)),
        )

    def _packet_log(self) -> recall.PacketLog:
        if self._packets is None:
            self._load_packets()
        assert self._packets is not None
        return self._packets

    def _load_packets(self) -> list[Packets]:
        quota_bytes = self.db.quota_pages * PAGE_BYTES
        found, self._packets = recall.load_packets(self.db, quota_bytes=quota_bytes)
        return found

    def close(self) -> None:
        """Closes the file."""
        self.db.close()


def unpack_copy(head: Head) -> Head:
    """A head that may be changed without changing the first."""
    copy = unpack_head(*pack_head(head))
    assert copy is not None
    return copy


def size_of(commit: Commit) -> int:
    """About how many bytes of the file a commit takes."""
    rows = sum(len(row.body) + ROW_BYTES for row in commit.rows)
    states = sum(len(one.body) + len(one.stream) + 32 for one in commit.checkpoints)
    packets = sum(10 * len(one.mids) + 64 for one in commit.packets)
    pending = sum(len(body) + 64 for _, body in commit.pending)
    gaps = 256 * len(commit.given_up)
    return rows + states + packets + pending + gaps + 32 * len(commit.settled) + 512


def _keep_state(tx: Transaction, commit: Commit, *, seq: int) -> None:
    head = tx.head
    tx.flush()
    recall.write_pending(tx.db, commit.pending, commit.settled)
    if commit.round in (Round.BEGIN, Round.WHOLE):
        head.round_at = seq
        head.round_since = Since(
            head.since_floor.rows, head.since_floor.readings, head.since_floor.bytes
        )
        head.round_bytes_now = 0
    head.round_bytes_now += recall.write_checkpoints(tx.db, commit.checkpoints, seq=seq)
    if commit.round in (Round.END, Round.WHOLE) and head.round_at is not None:
        before, now = head.round_since, head.since_floor
        head.since_floor = Since(
            now.rows - before.rows, now.readings - before.readings, now.bytes - before.bytes
        )
        head.floor, head.round_at = head.round_at, None
        head.round_bytes = head.round_bytes_now
