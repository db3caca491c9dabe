"""`state.db`: what outlives a lost spool. Tiny, and a kill of the process loses nothing of it.

Marks are not worth an fsync: after a power cut an older mark makes the device send again what the hub
knows already. `handed` is written before a row leaves the device, and a row whose mark cannot be written
does not leave; a number beyond it was never seen by anybody and may be given again after the spool lost
its tail. All else is worth less than a start or a verdict: where it cannot be written it is kept in
memory, and written with the next thing that can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from contract.status import Lane
from edge_agent.errors import StoreError, StoreFull
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.outbox.database import (
    Database,
    Durability,
    StoreCorrupt,
    check_readable,
    discard,
    set_aside,
)
from edge_agent.outbox.room import PAGE_BYTES, Plan
from edge_agent.outbox.schema import STATE_SCHEMA

STATE_FILE: Final = "state.db"
_PAGES: Final = Plan(limit=64, checkpoint=24, log=32, spare=0)
"""It never grows: a mark replaces the one before."""
_log = get_logger()


class Given(NamedTuple):
    """What a spool held of one lane when that was last noted.

    `readings` lie above `applied`; `total` readings ever entered the lane.
    """

    next_seq: int
    applied: int
    readings: int
    total: int
    exact: bool
    """Whether nothing was stored after it."""


class StateFile:
    """The state file, open or not; only the thread that opened it may use it."""

    def __init__(self, folder: Path, *, suffix: Callable[[], str]) -> None:
        """`suffix` names a damaged file that is set aside."""
        self._path = folder / STATE_FILE
        self._suffix = suffix
        self._db: Database | None = None
        self._identity: dict[str, int] = {"starts": 0, "revised_to": 0}
        self._marks: dict[Lane, tuple[str, int, int]] = {}
        self._given: dict[Lane, tuple[str, Given]] = {}
        self._unwritten: set[str] = set()

    def open(self) -> None:
        """Opens or makes the file; one that is damaged or of another schema is set aside."""
        if self._db is not None:
            return
        try:
            self._open()
        except StoreCorrupt as error:
            self._replace(error)

    def _replace(self, error: StoreCorrupt) -> None:
        self._close()
        aside = set_aside(self._path, suffix=self._suffix())
        _log.error(Event.OUTBOX_RECOVERED, file=aside.name, why=str(error))
        self._open()
        self._unwritten |= {*self._identity, *self._marks}
        self._unwritten |= {f"given {lane}" for lane in self._given}

    def _open(self) -> None:
        check_readable(self._path)
        made = not self._path.exists()
        try:
            self._db = Database.open(
                self._path,
                schema=STATE_SCHEMA,
                quota_bytes=_PAGES.limit * PAGE_BYTES,
                pages=_PAGES,
                durability=Durability.KILL,
            )
        except StoreCorrupt:
            raise
        except StoreError:
            if made:  # half a file is worth less than none
                discard(self._path)
            raise
        # Every table has its page by now. On a disk that fills up later the log could not be moved into
        # the file, would outgrow what is set aside for it, and no mark could be written any more.
        with suppress(StoreFull):
            self._db.claim_file()
        for name, value in self._db.rows("SELECT key, value FROM identity"):
            if name in self._identity and str(value).isdecimal():
                self._identity[name] = max(self._identity[name], int(value))
        for lane, epoch, handed, sent in self._db.rows(
            "SELECT lane, epoch, handed, sent FROM marks"
        ):
            if _known(lane) and isinstance(handed, int) and isinstance(sent, int):
                self._marks.setdefault(Lane(lane), (str(epoch), handed, sent))
        for lane, epoch, *numbers in self._db.rows(
            "SELECT lane, epoch, next_seq, applied, readings, total, exact FROM given"
        ):
            if _known(lane) and all(isinstance(one, int) for one in numbers):
                following, applied, readings, total, exact = numbers
                one = Given(following, applied, readings, total, bool(exact))
                self._given.setdefault(Lane(lane), (str(epoch), one))

    def begin(self) -> None:
        """Counts a start."""
        self._set("starts", self._identity["starts"] + 1)

    @property
    def starts(self) -> int:
        """How often the outbox was opened in this folder."""
        return self._identity["starts"]

    @property
    def revised_to(self) -> int:
        """The highest revision of the hub that was given out; 0 before the first."""
        return self._identity["revised_to"]

    @property
    def epoch(self) -> str:
        """The epoch that was last marked or noted; "" when none was."""
        marked = [epoch for epoch, _, _ in self._marks.values()]
        return (marked or [epoch for epoch, _ in self._given.values()] or [""])[0]

    def marks(self, epoch: str) -> dict[Lane, tuple[int, int]]:
        """Handed and sent of each lane that was marked in an epoch."""
        return {
            lane: (handed, sent)
            for lane, (one, handed, sent) in self._marks.items()
            if one == epoch
        }

    def given(self, epoch: str) -> dict[Lane, Given]:
        """What the spool of an epoch was last known to hold."""
        return {lane: given for lane, (one, given) in self._given.items() if one == epoch}

    def hand(self, lane: Lane, *, epoch: str, handed: int, sent: int) -> None:
        """Notes that numbers up to `handed` leave the device now; raises StoreError if it cannot."""
        self._write_mark(lane, (epoch, handed, sent))
        self._marks[lane] = (epoch, handed, sent)

    def mark(self, lane: Lane, *, epoch: str, handed: int, sent: int) -> None:
        """Notes how far a lane was acknowledged, at once or as soon as it can be written."""
        self._marks[lane] = (epoch, handed, sent)
        self._unwritten.add(lane)
        self.catch_up()

    def adopt(self, epoch: str) -> None:
        """Begins anew with another spool: nothing of it was handed out."""
        for lane in Lane:
            self._marks[lane] = (epoch, 0, 0)
            self._unwritten.add(lane)
        self.catch_up()

    def mark_revised(self, seq: int) -> None:
        """Notes how far the hub's revisions were given out."""
        self._set("revised_to", seq)

    def note(self, epoch: str, given: Mapping[Lane, Given]) -> None:
        """Notes what the spool holds, as far as that can be written now."""
        for lane, one in given.items():
            if self._given.get(lane) != (epoch, one):
                self._given[lane] = (epoch, one)
                self._unwritten.add(f"given {lane}")
        self.catch_up()

    def catch_up(self) -> None:
        """Writes what could not be written before; keeps it where it still cannot."""
        try:
            for name in sorted(self._unwritten):
                self._write(name)
                self._unwritten.discard(name)
        except StoreError as error:
            _log.debug(Event.OUTBOX_FAULT, error=str(error), kind=type(error).__name__)

    def close(self) -> None:
        """Closes the file; raises StoreError when the last write failed."""
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _close(self) -> None:
        try:
            self.close()
        except StoreError as error:
            _log.debug(Event.OUTBOX_CLOSE_FAILED, error=str(error))

    def _set(self, name: str, value: int) -> None:
        self._identity[name] = value
        self._unwritten.add(name)
        self.catch_up()

    def _write(self, name: str) -> None:
        if name in self._identity:
            value = str(self._identity[name])
            self._run("INSERT OR REPLACE INTO identity VALUES (?,?)", (name, value))
        elif _known(name):
            self._write_mark(Lane(name), self._marks[Lane(name)])
        else:
            lane = Lane(name.removeprefix("given "))
            epoch, given = self._given[lane]
            self._run("INSERT OR REPLACE INTO given VALUES (?,?,?,?,?,?,?)", (lane, epoch, *given))

    def _write_mark(self, lane: Lane, mark: tuple[str, int, int]) -> None:
        self._run("INSERT OR REPLACE INTO marks VALUES (?,?,?,?)", (lane, *mark))

    def _run(self, statement: str, values: tuple[object, ...]) -> None:
        if self._db is None:
            raise StoreError(f"{self._path} is not open")
        try:
            self._db.run(statement, values)
        except StoreCorrupt as error:
            self._replace(error)
            self._db.run(statement, values)


def _known(lane: object) -> bool:
    return isinstance(lane, str) and lane in {each.value for each in Lane}
