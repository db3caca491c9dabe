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
from edge_agent.outbox import dead_letters
from edge_agent.outbox.cursor import plausible
from edge_agent.outbox.database import (
    DiskFull,
    Durability,
    StoreCorrupt,
    discard,
    put_in_place,
    set_aside,
    translated,
)
from edge_agent.outbox.dead_letters import DeadLetter
from edge_agent.outbox.head import Head
from edge_agent.outbox.lost import lost_spool
from edge_agent.outbox.notices import Notices
from edge_agent.outbox.remains import Remains
from edge_agent.outbox.retention import Budgets
from edge_agent.outbox.room import PAGE_BYTES
from edge_agent.outbox.salvage import Memory, salvage
from edge_agent.outbox.spool import SPOOL_FILE, Spool
from edge_agent.outbox.statefile import StateFile
from edge_agent.outbox.transaction import Moment
from edge_agent.outbox.trimming import trim_due
from edge_agent.types import Clock, Commit, Recovery, StoredRow

_log = get_logger()
_NEW_FILE: Final = "spool.db.new"
_RELAX_EVERY_S: Final = 2.0
"""How often a full disk is asked for more."""


@dataclass(slots=True)
class Mark:
    """How far a lane was handed to the forwarder, and acknowledged by the server."""

    handed: int = 0
    sent: int = 0


class Files:
    """`spool.db` and `state.db`; every method runs on the thread that called `open`."""

    def __init__(self, folder: Path, *, quota_bytes: int, budgets: Budgets, clock: Clock) -> None:
        self.folder = folder
        self.quota_bytes = quota_bytes
        self.marks: dict[Lane, Mark] = {lane: Mark() for lane in Lane}
        self.state = StateFile(folder, suffix=self._suffix)
        self.budgets = budgets
        self._clock = clock
        self._notices = Notices()
        self._age_from_s = 0.0
        self._mono_from_s = clock.mono_ns() / 1e9
        self._began = False
        self._spool: Spool | None = None
        self._head: Head | None = None
        self._noted_number = -1
        self._limit_bytes = quota_bytes
        self._relax_at_s = 0.0
        self._attempt: tuple[int, list[int]] = (0, [])

    @property
    def spool(self) -> Spool:
        """The open spool; raises StoreError while there is none."""
        if self._spool is None:
            raise StoreError(f"the spool in {self.folder} is not open")
        return self._spool

    @property
    def head(self) -> Head:
        """The counters as they are on the disk; the last known ones while the spool is not open."""
        if self._spool is not None:
            self._head = self._spool.head
        assert self._head is not None
        return self._head

    @property
    def starts(self) -> int:
        """How often the outbox was opened in this folder, this time included."""
        return self.state.starts

    @property
    def revised_to(self) -> int:
        """The highest revision of the hub that was given out."""
        return self.state.revised_to

    @property
    def limit_bytes(self) -> int:
        """How large the spool may become at present; the last known while it is not open."""
        if self._spool is not None:
            self._limit_bytes = self._spool.db.page_limit * PAGE_BYTES
        return self._limit_bytes

    def open(self, *, renew: str = "") -> None:
        """Opens both files, makes what is missing, and sets aside and salvages what is damaged.

        With a reason to `renew`, the spool is set aside and salvaged although it may look sound.
        """
        # Even to ask whether a file is there fails on a disk that is dying.
        with translated(f"cannot open {self.folder}"):
            self._open_both(renew)

    def _open_both(self, renew: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state.open()
        if not self._began:
            self._began = True
            self.state.begin()
        path, fresh = self.folder / SPOOL_FILE, self.folder / _NEW_FILE
        if fresh.exists():  # a salvage was interrupted: before its end it begins anew
            discard(fresh) if path.exists() else put_in_place(fresh, path)
        if renew and path.exists():
            self._renew(StoreCorrupt(renew))
        try:
            spool = self._open_spool(path)
        except StoreCorrupt as error:
            self._renew(error)
            spool = self._open_spool(path)
        self._spool = spool
        self._age_from_s = spool.head.age_s
        self._mono_from_s = self._clock.mono_ns() / 1e9
        self._take_marks(spool)
        self.note()

    def _open_spool(self, path: Path) -> Spool:
        return Spool.open(
            path,
            quota_bytes=self.quota_bytes,
            new_epoch=secrets.token_hex(8),
            budgets=self.budgets,
        )

    def _take_marks(self, spool: Spool) -> None:
        """Goes on from what left the device of this spool, and declares another that is gone."""
        known = self.state.epoch
        if known == spool.head.epoch:
            marks = self.state.marks(known)
            handed = {lane: marks.get(lane, (0, 0))[0] for lane in Lane}
            spool.skip_handed(handed, self.state.given(known))
            self.marks = {lane: Mark(*marks.get(lane, (0, 0))) for lane in Lane}
        else:
            if known:
                self._declare_lost(spool, known)
            self.state.adopt(spool.head.epoch)
            self.marks = {lane: Mark() for lane in Lane}
        for lane, mark in self.marks.items():
            mark.sent = max(mark.sent, spool.head.lanes[lane].applied)
            mark.handed = max(mark.handed, mark.sent)
            spool.handed[lane] = mark.handed

    def _declare_lost(self, spool: Spool, epoch: str) -> None:
        exact = self._head is not None and self._head.number == self._noted_number
        gaps = lost_spool(epoch, self.state.given(epoch), self.state.marks(epoch), exact=exact)
        spool.declare_lost(epoch, gaps, self._moment())
        _log.error(
            Event.OUTBOX_RECOVERED,
            why="the spool is gone or was replaced: what it held beyond the hub's is lost",
            epoch_before=epoch,
            lost_readings=sum(gap.readings for gap in gaps),
            exact=all(gap.exact for gap in gaps),
        )

    def note(self, *, last: bool = False) -> None:
        """Notes beside the spool how much it holds; `last`: nothing will be stored after it."""
        head = self.spool.head
        given = self.spool.given(exact=last)
        if given is not None:
            self.state.note(head.epoch, given)
            self._noted_number = head.number

    def reopen(self) -> None:
        """Closes and opens the spool after a failed write, and makes what it finds there durable."""
        self.close()
        self.open()
        self.spool.db.settle()

    def renew(self, error: StoreCorrupt) -> None:
        """Sets the damaged spool aside and goes on with what could be salvaged."""
        with translated(f"cannot renew {self.folder}"):
            self._renew(error)
        self.open()

    def write(self, commits: list[Commit]) -> list[int]:
        """Stores commits; see Spool.write. A full disk is taken for the quota, within what the file has."""
        spool = self.spool
        before = spool.head.classes
        self._relax(spool)
        try:
            try:
                seqs = spool.write(commits, self._moment())
            except DiskFull as error:
                self._confine(spool, error)
                seqs = spool.write(commits, self._moment())
        finally:
            self._attempt = spool.attempt
        if spool.db.falls_behind():
            try:
                self._confine(spool, "the log cannot be moved into the file")
            except StoreError as error:  # what was written is safe in the log
                _log.debug(Event.OUTBOX_FAULT, error=str(error), kind=type(error).__name__)
        after = spool.head.classes
        shed = {kind: one.shed_rows for kind, one in after.items() if one.shed_rows}
        if any(before[kind].shed_rows < rows for kind, rows in shed.items()):
            self._notices.warn(Event.OUTBOX_SHED, shed_rows=shed)
        return seqs

    def _confine(self, spool: Spool, why: object) -> None:
        self._relax_at_s = self._clock.mono_ns() / 1e9 + _RELAX_EVERY_S
        spool.db.confine()
        self._notices.warn(
            Event.OUTBOX_CONFINED, why=str(why), bytes=spool.db.page_limit * PAGE_BYTES
        )

    def _relax(self, spool: Spool) -> None:
        now_s = self._clock.mono_ns() / 1e9
        if spool.db.confined and now_s >= self._relax_at_s:
            self._relax_at_s = now_s + _RELAX_EVERY_S
            spool.db.relax()

    def found(self, number: int) -> list[int] | None:
        """The answer to a write that failed at its very end, if transaction `number` is there."""
        attempted, seqs = self._attempt
        return seqs if attempted == number == self.head.number else None

    def read(self, lane: Lane, *, after: int, max_bytes: int, max_rows: int) -> list[StoredRow]:
        """The next sound rows of a lane; damaged ones on the way become dead letters and gaps."""
        while True:
            rows, bad = self.spool.read(lane, after=after, max_bytes=max_bytes, max_rows=max_rows)
            if bad:
                self._notices.warn(
                    Event.OUTBOX_DEAD_LETTER,
                    lane=lane,
                    rows=bad[:10],
                    count=len(bad),
                    why="damaged",
                )
                self.spool.quarantine(lane, bad, self._moment())
            if rows or not bad:
                break
        missed = self.spool.missed(lane, after=after, rows=rows)
        if missed:
            self._notices.warn(Event.OUTBOX_DEAD_LETTER, lane=lane, why="hidden by damage")
            self.spool.declare_missed(lane, missed, self._moment())
        mark = self.marks[lane]
        if rows and rows[-1].seq > mark.handed:
            # A number that cannot be written down as given does not leave: it might be given again.
            self.state.hand(lane, epoch=self.head.epoch, handed=rows[-1].seq, sent=mark.sent)
            mark.handed = self.spool.handed[lane] = rows[-1].seq
        return rows

    def mark_revised(self, seq: int) -> None:
        """Notes how far the hub's revisions were given out."""
        self.state.mark_revised(seq)

    def mark_sent(self, lane: Lane, seq: int) -> None:
        """Notes that all up to `seq` was acknowledged by the server."""
        mark = self.marks[lane]
        if seq > mark.sent:
            mark.sent = seq
            mark.handed = max(mark.handed, seq)
            self.state.mark(lane, epoch=self.spool.head.epoch, handed=mark.handed, sent=mark.sent)

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
        return self.spool.expire(self._moment()) > 0

    def wall_s(self) -> float:
        """The wall clock."""
        return self._clock.wall_s()

    def dead_letters(self) -> list[DeadLetter]:
        """What was set aside, oldest first."""
        return dead_letters.listed(self.spool.db)

    def finish(self) -> None:
        """Closes both files in order: what the spool holds now is noted beside it."""
        if self._spool is not None:
            try:
                self.note(last=True)
            except StoreError as error:
                _log.debug(Event.OUTBOX_CLOSE_FAILED, error=str(error))
        self.close()

    def close(self) -> None:
        """Closes both files; what fails here was not promised to anybody."""
        for file in (self._spool, self.state):
            if file is None:
                continue
            try:
                file.close()
            except StoreError as error:
                _log.debug(Event.OUTBOX_CLOSE_FAILED, error=str(error))
        self._spool = None

    def _renew(self, error: StoreCorrupt) -> None:
        if self._spool is not None:
            try:
                self._spool.close()
            except StoreError:
                _log.debug(Event.OUTBOX_CLOSE_FAILED, error=str(error))
            self._spool = None
        known = self.state.epoch
        path, fresh = self.folder / SPOOL_FILE, self.folder / _NEW_FILE
        discard(fresh)
        remains = Remains(path)
        try:
            old = remains.head()
            epoch = old.epoch if old is not None else known or secrets.token_hex(8)
            # Until it is put in place a power cut costs nothing: the damaged file is still there.
            spool = Spool.open(
                fresh,
                quota_bytes=self.quota_bytes,
                new_epoch=epoch,
                budgets=self.budgets,
                durability=Durability.KILL,
            )
            try:
                account = salvage(
                    remains,
                    spool,
                    memory=Memory(self.state.marks(epoch), self.state.given(epoch)),
                    moment=self._moment(),
                )
                spool.db.settle()
            finally:
                spool.close()
        finally:
            remains.close()
        aside = set_aside(path, suffix=self._suffix())
        put_in_place(fresh, path)
        _log.error(
            Event.OUTBOX_RECOVERED,
            file=aside.name,
            why=str(error),
            rows=account.rows,
            readings=account.readings,
            lost_ranges=account.lost_ranges,
            lost_readings=account.lost_readings,
        )

    def _moment(self) -> Moment:
        passed_s = max(self._clock.mono_ns() / 1e9 - self._mono_from_s, 0.0)
        return Moment(wall_s=self._clock.wall_s(), age_s=self._age_from_s + passed_s)

    def _suffix(self) -> str:
        return time.strftime(
            "%Y%m%dT%H%M%SZ", time.gmtime(self._clock.wall_s())
        ) + secrets.token_hex(2)
