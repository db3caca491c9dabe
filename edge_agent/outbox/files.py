"""The two files together: opened, repaired and marked, on the one thread that owns them."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.messages import Watermark
from contract.status import Lane
from edge_agent.errors import StoreError
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.outbox.cursor import plausible
from edge_agent.outbox.database import StoreCorrupt, discard, put_in_place, set_aside
from edge_agent.outbox.head import Head
from edge_agent.outbox.salvage import Remains, salvage
from edge_agent.outbox.spool import SPOOL_FILE, Spool
from edge_agent.outbox.statefile import StateFile
from edge_agent.outbox.transaction import Moment
from edge_agent.outbox.trimming import trim_due
from edge_agent.types import Clock, Commit, Recovery, StoredRow

_log = get_logger()
_NEW_FILE: Final = "spool.db.new"


@dataclass(slots=True)
class Mark:
    """How far a lane was handed to the forwarder, and acknowledged by the server."""

    handed: int = 0
    sent: int = 0


class Files:
    """`spool.db` and `state.db`; every method runs on the thread that called `open`."""

    def __init__(self, folder: Path, *, quota_bytes: int, max_age_s: float, clock: Clock) -> None:
        self.folder = folder
        self.quota_bytes = quota_bytes
        self.max_age_s = max_age_s
        self.set_aside_count = 0
        self.starts = 0
        self.revised_to = 0
        self.marks: dict[Lane, Mark] = {lane: Mark() for lane in Lane}
        self._clock = clock
        self._age_from_s = 0.0
        self._mono_from_s = clock.mono_ns() / 1e9
        self._state: StateFile | None = None
        self._spool: Spool | None = None
        self._head: Head | None = None
        self._attempt: tuple[int, list[int]] = (0, [])

    @property
    def spool(self) -> Spool:
        """The open spool; raises StoreError while there is none."""
        if self._spool is None:
            raise StoreError(f"the spool in {self.folder} is not open")
        return self._spool

    @property
    def state(self) -> StateFile:
        """The open state file; raises StoreError while there is none."""
        if self._state is None:
            raise StoreError(f"the state file in {self.folder} is not open")
        return self._state

    @property
    def head(self) -> Head:
        """The counters as they are on the disk; the last known ones while the spool is not open."""
        if self._spool is not None:
            self._head = self._spool.head
        assert self._head is not None
        return self._head

    def open(self) -> None:
        """Opens both files, makes what is missing, and sets aside and salvages what is damaged."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._state is None:
            self._state = StateFile.open(self.folder, suffix=self._suffix())
            self.starts = self._state.starts()
            self.revised_to = self._state.revised_to()
        path, fresh = self.folder / SPOOL_FILE, self.folder / _NEW_FILE
        if fresh.exists():  # a salvage was interrupted: before its end it begins anew
            discard(fresh) if path.exists() else put_in_place(fresh, path)
        epoch = secrets.token_hex(8)
        try:
            spool = Spool.open(path, quota_bytes=self.quota_bytes, new_epoch=epoch)
        except StoreCorrupt as error:
            self._renew(error)
            spool = Spool.open(path, quota_bytes=self.quota_bytes, new_epoch=epoch)
        self._spool = spool
        known, marks = self.state.marks()
        if known and known != spool.head.epoch and self.set_aside_count == 0:
            _log.error(
                Event.OUTBOX_RECOVERED,
                why="the spool is gone or was replaced: what it held beyond the hub's is lost",
                epoch_before=known,
                handed={str(lane): handed for lane, (handed, _) in marks.items()},
            )
        if known == spool.head.epoch:
            spool.skip_handed({lane: marks.get(lane, (0, 0))[0] for lane in Lane})
        if known == spool.head.epoch:
            self.marks = {lane: Mark(*marks.get(lane, (0, 0))) for lane in Lane}
        else:
            self.marks = {lane: Mark() for lane in Lane}
        for lane, mark in self.marks.items():
            mark.sent = max(mark.sent, spool.head.lanes[lane].applied)
            mark.handed = max(mark.handed, mark.sent)
            spool.handed[lane] = mark.handed
        self._age_from_s = spool.head.age_s
        self._mono_from_s = self._clock.mono_ns() / 1e9

    def reopen(self) -> None:
        """Closes and opens the spool after a failed write, and makes what it finds there durable."""
        self.close()
        self.open()
        self.spool.db.settle()

    def renew(self, error: StoreCorrupt) -> None:
        """Sets the damaged spool aside and goes on with what could be salvaged."""
        self._renew(error)
        self.open()

    def write(self, commits: list[Commit]) -> list[int]:
        """Stores commits; see Spool.write."""
        spool = self.spool
        before = spool.head.classes
        try:
            seqs = spool.write(commits, self._moment())
        finally:
            self._attempt = spool.attempt
        after = spool.head.classes
        shed = {kind: one.shed_rows for kind, one in after.items() if one.shed_rows}
        if any(before[kind].shed_rows < rows for kind, rows in shed.items()):
            _log.warning(Event.OUTBOX_SHED, shed_rows=shed)
        return seqs

    def found(self, number: int) -> list[int] | None:
        """The answer to a write that failed at its very end, if transaction `number` is there."""
        attempted, seqs = self._attempt
        return seqs if attempted == number == self.head.number else None

    def read(self, lane: Lane, *, after: int, max_bytes: int, max_rows: int) -> list[StoredRow]:
        """The next sound rows of a lane; damaged ones on the way become dead letters and gaps."""
        while True:
            rows, bad = self.spool.read(lane, after=after, max_bytes=max_bytes, max_rows=max_rows)
            if bad:
                _log.warning(
                    Event.OUTBOX_DEAD_LETTER,
                    lane=lane,
                    rows=bad[:10],
                    count=len(bad),
                    why="damaged",
                )
                self.spool.quarantine(lane, bad, self._moment())
            if rows or not bad:
                break
        mark = self.marks[lane]
        if rows and rows[-1].seq > mark.handed:
            mark.handed = rows[-1].seq
            self._note(lane, mark)
            self.spool.handed[lane] = mark.handed
        return rows

    def mark_revised(self, seq: int) -> None:
        """Notes how far the hub's revisions were given out."""
        self.state.mark_revised(seq)
        self.revised_to = seq

    def mark_sent(self, lane: Lane, seq: int) -> None:
        """Notes that all up to `seq` was acknowledged by the server."""
        mark = self.marks[lane]
        if seq > mark.sent:
            mark.sent = seq
            mark.handed = max(mark.handed, seq)
            self._note(lane, mark)

    def apply(self, lane: Lane, watermark: Watermark) -> None:
        """Notes what the hub's database holds; see Spool.apply."""
        if watermark.epoch != self.spool.head.epoch:
            _log.info(Event.OUTBOX_WATERMARK_IGNORED, lane=lane, epoch=watermark.epoch)
            return
        if not plausible(watermark, next_seq=self.spool.head.lanes[lane].next_seq):
            _log.warning(Event.OUTBOX_WATERMARK_IGNORED, lane=lane, applied=watermark.applied)
            return
        self.spool.apply(lane, watermark, self._moment())
        applied = self.spool.head.lanes[lane].applied
        if applied > self.marks[lane].sent:
            self.mark_sent(lane, applied)
            self.spool.handed[lane] = self.marks[lane].handed

    def set_aside(self, lane: Lane, seq: int, reason: str) -> None:
        """Moves one row to the dead letters."""
        _log.warning(Event.OUTBOX_DEAD_LETTER, lane=lane, seq=seq, why=reason)
        self.spool.set_aside(lane, seq, reason=reason, moment=self._moment())

    def recover(self) -> Recovery:
        """See Spool.recover."""
        return self.spool.recover()

    def tidy(self) -> None:
        """One slice of trimming."""
        if trim_due(self.spool.head):
            self.spool.trim(self._moment())

    def expire(self) -> bool:
        """One slice of dropping what is too old; whether more may be due."""
        return self.spool.expire(self._moment(), max_age_s=self.max_age_s) > 0

    def close(self) -> None:
        """Closes both files; what fails here was not promised to anybody."""
        for file in (self._spool, self._state):
            if file is None:
                continue
            try:
                file.close()
            except StoreError as error:
                _log.warning(Event.OUTBOX_CLOSE_FAILED, error=str(error))
        self._spool = self._state = None

    def _renew(self, error: StoreCorrupt) -> None:
        if self._spool is not None:
            try:
                self._spool.close()
            except StoreError:
                _log.debug(Event.OUTBOX_CLOSE_FAILED, error=str(error))
            self._spool = None
        known, marks = self.state.marks()
        path, fresh = self.folder / SPOOL_FILE, self.folder / _NEW_FILE
        remains = Remains(path)
        try:
            old = remains.head()
            epoch = old.epoch if old is not None else known or secrets.token_hex(8)
            handed = {lane: marks.get(lane, (0, 0))[0] if epoch == known else 0 for lane in Lane}
            spool = Spool.open(fresh, quota_bytes=self.quota_bytes, new_epoch=epoch)
            try:
                account = salvage(remains, spool, handed=handed, moment=self._moment())
                spool.db.settle()
            finally:
                spool.close()
        finally:
            remains.close()
        aside = set_aside(path, suffix=self._suffix())
        put_in_place(fresh, path)
        self.set_aside_count += 1
        _log.error(
            Event.OUTBOX_RECOVERED,
            file=aside.name,
            why=str(error),
            rows=account.rows,
            readings=account.readings,
            lost_ranges=account.lost_ranges,
            lost_readings=account.lost_readings,
        )

    def _note(self, lane: Lane, mark: Mark) -> None:
        self.state.mark(lane, epoch=self.spool.head.epoch, handed=mark.handed, sent=mark.sent)

    def _moment(self) -> Moment:
        passed_s = max(self._clock.mono_ns() / 1e9 - self._mono_from_s, 0.0)
        return Moment(wall_s=self._clock.wall_s(), age_s=self._age_from_s + passed_s)

    def _suffix(self) -> str:
        return time.strftime(
            "%Y%m%dT%H%M%SZ", time.gmtime(self._clock.wall_s())
        ) + secrets.token_hex(2)
