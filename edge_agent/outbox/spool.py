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
from contract.status import Lane
from edge_agent.errors import StoreFull
from edge_agent.outbox import dead_letters, recall, shedding
from edge_agent.outbox.database import Database, Durability, StoreCorrupt
from edge_agent.outbox.gaps import uncovered
from edge_agent.outbox.head import Head, Since, pack_head, unpack_head
from edge_agent.outbox.records import COLUMNS, ROW_BYTES, unseal
from edge_agent.outbox.schema import SPOOL_SCHEMA
from edge_agent.outbox.transaction import GapKey, Moment, Transaction
from edge_agent.outbox.trimming import trim_slice
from edge_agent.types import Commit, Recovery, Round, StoredRow

SPOOL_FILE: Final = "spool.db"
_MAX_RANGES: Final = 64
_MAX_RANGE_ROWS: Final = 10_000


class Spool:
    """The open spool. `head` is what is on the disk and is never changed in place."""

    def __init__(self, db: Database, head: Head) -> None:
        self.db = db
        self.head = head
        self.handed: dict[Lane, int] = dict.fromkeys(Lane, 0)
        self.attempt: tuple[int, list[int]] = (0, [])
        self._open_gaps: dict[GapKey, tuple[int, Gap]] = {}
        self._packets: recall.PacketLog | None = None

    @classmethod
    def open(cls, path: Path, *, quota_bytes: int, new_epoch: str) -> Spool:
        """Opens the spool, or makes one with `new_epoch`; raises StoreCorrupt when it must be set aside."""
        db = Database.open(
            path, schema=SPOOL_SCHEMA, quota_bytes=quota_bytes, durability=Durability.POWER_CUT
        )
        try:
            found = db.rows("SELECT body, sum FROM head WHERE id = 1")
            head = unpack_head(*found[0]) if found else Head(epoch=new_epoch)
            if head is None:
                raise StoreCorrupt(f"the counters of {path} are damaged")
            if not found and any(db.rows(f"SELECT seq FROM {lane} LIMIT 1") for lane in Lane):
                raise StoreCorrupt(f"the counters of {path} are gone")
            spool = cls(db, head)
            if not found:
                with spool.transact(Moment(wall_s=0.0, age_s=0.0)):
                    pass
        except BaseException:
            db.close()
            raise
        return spool

    def skip_handed(self, handed: Mapping[Lane, int]) -> None:
        """Never gives a number again that may have left the device; leaves a gap where one would.

        It happens when the file lost its tail: a torn log, or an old copy put back.
        """
        behind = [lane for lane in Lane if handed[lane] >= self.head.lanes[lane].next_seq]
        if behind:
            with self.transact(Moment(wall_s=0.0, age_s=self.head.age_s)) as tx:
                for lane in behind:
                    first = tx.head.lanes[lane].next_seq
                    tx.head.lanes[lane].next_seq = handed[lane] + 1
                    tx.leave_gap(Gap(lane, first, handed[lane], 1, 0, "lost"))
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
            if not shedding.make_room(tx, need_bytes=need):
                self._insist(tx, need)
            for commit in commits:
                for row in commit.rows:
                    tx.add(row)
                seqs.append(tx.head.lanes[Lane.TEL].next_seq - 1)
                _keep_state(tx, commit, seq=seqs[-1])
            packets = [one for commit in commits for one in commit.packets if len(one.mids)]
            noted = log.write(self.db, packets)
            gone = log.trim(self.db)
            tx.flush()
            shedding.keep_budgets(tx)
            self.attempt = (tx.head.number + 1, seqs)
        for entry in noted:
            log.note(*entry)
        log.forget(gone)
        return seqs

    def _insist(self, tx: Transaction, need_bytes: int) -> None:
        """Lets a commit use the reserve only where it stays below the hard limit."""
        from_limit = (self.db.page_limit - tx.db.pages_used()) * 4096
        if need_bytes * 2 > from_limit:
            raise StoreFull(
                f"the quota of {self.db.page_limit * 4096} bytes is used up by rows that must not be "
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
            readings = tx.readings_between(lane, run[0], run[-1])
            tx.leave_gap(Gap(lane, run[0], run[-1], 1, readings, "lost"))

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

    def expire(self, moment: Moment, *, max_age_s: float) -> int:
        """Drops a slice of raw rows that are too old; returns how many."""
        with self.transact(moment) as tx:
            return shedding.expire(tx, max_age_s=max_age_s)

    def recover(self) -> Recovery:
        """What was known when the agent last stopped; takes as long as its answer is large."""
        packets, self._packets = recall.load_packets(self.db)
        return Recovery(
            epoch=self.head.epoch,
            checkpoints=recall.load_checkpoints(self.db),
            rows=tuple(recall.load_raw_rows(self.db, after=self.head.floor)),
            packets=tuple(packets),
            pending=tuple(recall.load_pending(self.db)),
        )

    def _packet_log(self) -> recall.PacketLog:
        if self._packets is None:
            _, self._packets = recall.load_packets(self.db)
        return self._packets

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
    return rows + states + packets + sum(len(body) + 64 for _, body in commit.pending) + 512


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
