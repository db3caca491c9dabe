"""What the stand-in hub has taken: rows under their key, their readings, declared gaps; in one durable file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from contract.encoding import EncodingError, decode, expand
from contract.messages import Gap, RawRow, RowMessage, StateReport, Watermark
from contract.status import Lane, RowClass
from contract.subjects import ENCODING, parse
from edge_agent.outbox.database import Database, Durability
from edge_agent.rehearse.hub_marks import LaneMarks

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS rows (device TEXT, epoch TEXT, lane TEXT, seq INTEGER, kind TEXT,
  PRIMARY KEY (device, epoch, lane, seq));
CREATE TABLE IF NOT EXISTS readings (id INTEGER PRIMARY KEY, device TEXT, epoch TEXT, seq INTEGER,
  place INTEGER, stream TEXT, time_s REAL, value REAL, flags INTEGER,
  UNIQUE (device, epoch, seq, place));
CREATE TABLE IF NOT EXISTS gaps (device TEXT, epoch TEXT, lane TEXT, seq INTEGER, gap_lane TEXT,
  first INTEGER, last INTEGER, stride INTEGER, readings INTEGER, reason TEXT, of_epoch TEXT,
  PRIMARY KEY (device, epoch, lane, seq));
CREATE TABLE IF NOT EXISTS letters (id INTEGER PRIMARY KEY, device TEXT, reason TEXT);
"""
_QUOTA_BYTES: Final = 2 * 1024**3
_HUB: Final = "hub"
_FORGONE: Final = "kept by nobody when the rehearsal began"
MAX_PAGE: Final = 50_000

LaneKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message of a lane as it came."""

    subject: str
    headers: dict[str, str]
    body: bytes


class Ledger:
    """The file, and the marks that follow from it. `store` is whole and on the disk when it returns."""

    def __init__(self, path: Path) -> None:
        """Opens or makes the file; raises StoreError."""
        self._db = Database.open(
            path, schema=_SCHEMA, quota_bytes=_QUOTA_BYTES, durability=Durability.POWER_CUT
        )
        self._marks: dict[LaneKey, LaneMarks] = {}
        self.repeated_rows = 0
        for device, epoch, lane, seq in self._db.scan("SELECT device, epoch, lane, seq FROM rows"):
            self._of((device, epoch, lane)).add_row(seq)
        for device, epoch, *rest in self._db.scan(
            "SELECT device, of_epoch, gap_lane, first, last, stride, readings, reason FROM gaps"
        ):
            gap = Gap(Lane(rest[0]), *rest[1:])
            self._of((device, epoch, gap.lane)).add_gap(gap)
        for marks in self._marks.values():
            marks.advance()

    def store(self, deliveries: Iterable[Delivery]) -> None:
        """Stores messages; a row that is known changes nothing. Raises StoreError."""
        touched: set[LaneKey] = set()
        with self._db.transaction():
            for one in deliveries:
                address = parse(one.subject)
                try:
                    plain = expand(one.body, one.headers.get(ENCODING, ""))
                    message = decode(plain, RowMessage)
                except EncodingError as error:
                    self._letter("" if address is None else address.device, str(error))
                    continue
                if address is not None:
                    touched |= self._store_rows(address.device, message)
        for key in touched:
            self._of(key).advance()

    def answer(
        self, device: str, report: StateReport, pending: dict[str, int]
    ) -> dict[str, Watermark]:
        """The watermarks of the lanes that a device reports; rows that nobody has are counted as settled."""
        known = {lane.value for lane in Lane}
        lanes = {name: lane for name, lane in report.lanes.items() if name in known}
        quiet = not any(pending.values())
        for name, lane in lanes.items():
            marks = self._of((device, lane.epoch, name))
            if quiet and marks.applied < lane.first_kept - 1:
                gap = Gap(Lane(name), marks.applied + 1, lane.first_kept - 1, 1, 0, _FORGONE)
                self._add_gap(device, lane.epoch, _HUB, gap.first, gap)
                marks.advance()
        return {
            name: self._of((device, lane.epoch, name)).watermark(
                epoch=lane.epoch, pending=pending.get(name, 0)
            )
            for name, lane in lanes.items()
        }

    def behind(self, device: str, report: StateReport) -> list[Lane]:
        """The lanes of which something was sent that is not stored."""
        return [
            lane
            for lane in Lane
            if (said := report.lanes.get(lane.value)) is not None
            and self._of((device, said.epoch, lane.value)).applied < said.next_seq - 1
        ]

    def readings(self, *, after: int) -> list[list[Any]]:
        """The next readings in order of arrival: id, stream, time, first channel's value, flags."""
        found = self._db.rows(
            "SELECT id, stream, time_s, value, flags FROM readings WHERE id > ? ORDER BY id LIMIT ?",
            (after, MAX_PAGE),
        )
        return [list(row) for row in found]

    def gaps(self) -> list[dict[str, Any]]:
        """What was declared as given up, of readings.

        A gap of a lost outbox says what its rows held: what is here of them is no loss.
        """
        names = ("first", "last", "stride", "readings", "reason")
        return [
            dict(zip(names, row, strict=True))
            for row in self._db.rows(
                "SELECT first, last, stride, CASE WHEN of_epoch = epoch THEN readings ELSE max(0, readings -"
                " (SELECT count(*) FROM readings r WHERE r.device = g.device AND r.epoch = g.of_epoch"
                " AND r.seq BETWEEN g.first AND g.last)) END, reason"
                " FROM gaps g WHERE gap_lane = 'tel' AND lane <> 'hub'"
            )
        ]

    def counts(self) -> dict[str, int]:
        """How much is stored."""
        tables = ("rows", "readings", "gaps", "letters")
        found = {name: self._db.rows(f"SELECT count(*) FROM {name}")[0][0] for name in tables}  # noqa: S608
        return {**found, "repeated_rows": self.repeated_rows}

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def _store_rows(self, device: str, message: RowMessage) -> set[LaneKey]:
        lane = message.lane.value
        touched: set[LaneKey] = {(device, message.epoch, lane)}
        for row in message.rows:
            self._of((device, message.epoch, lane)).add_row(row.seq)
            key = (device, message.epoch, lane, row.seq, row.kind.value)
            if not self._db.run("INSERT OR IGNORE INTO rows VALUES (?,?,?,?,?)", key):
                self.repeated_rows += 1
                continue
            try:
                if row.kind is RowClass.RAW:
                    self._add_readings(device, message.epoch, row.seq, decode(row.body, RawRow))
                elif row.kind is RowClass.GAP:
                    gap = decode(row.body, Gap)
                    self._add_gap(device, message.epoch, lane, row.seq, gap)
                    touched.add((device, gap.epoch or message.epoch, gap.lane.value))
            except (EncodingError, ValueError) as error:
                self._letter(device, f"{lane} {row.seq}: {error}")
        return touched

    def _add_readings(self, device: str, epoch: str, seq: int, row: RawRow) -> None:
        self._db.run_many(
            "INSERT OR IGNORE INTO readings (device, epoch, seq, place, stream, time_s, value, flags)"
            " VALUES (?,?,?,?,?,?,?,?)",
            ((device, epoch, seq, *reading) for reading in _readings(row)),
        )

    def _add_gap(self, device: str, epoch: str, lane: str, seq: int, gap: Gap) -> None:
        of_epoch = gap.epoch or epoch
        covered = (gap.lane.value, gap.first, gap.last, gap.stride, gap.readings, gap.reason)
        values = (device, epoch, lane, seq, *covered, of_epoch)
        self._db.run("INSERT OR IGNORE INTO gaps VALUES (?,?,?,?,?,?,?,?,?,?,?)", values)
        self._of((device, of_epoch, gap.lane.value)).add_gap(gap)

    def _letter(self, device: str, reason: str) -> None:
        self._db.run("INSERT INTO letters (device, reason) VALUES (?,?)", (device, reason[:200]))

    def _of(self, key: LaneKey) -> LaneMarks:
        return self._marks.setdefault(key, LaneMarks())


def _readings(row: RawRow) -> Iterator[tuple[int, str, float, float | None, int]]:
    """Place in the row, stream, time, first channel's value and flags of each reading; raises ValueError."""
    for group in row.groups:
        times = np.frombuffer(group.times, "<f8")
        values = np.frombuffer(group.values, "<f8").reshape(group.count, len(group.channels))
        flags = np.frombuffer(group.flags, "u1")
        for index in range(group.count):
            value = float(values[index, 0])
            yield (
                group.first + index,
                group.stream,
                float(times[index]),
                value if value == value else None,  # noqa: PLR0124 - NaN
                int(flags[index]),
            )
