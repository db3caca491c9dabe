"""Stores what one fetch brought, and moves the watermarks, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from sqlalchemy import delete, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_hub.store.gaps import count_gaps
from cloud_hub.store.marks import LaneKey, Marks, Range, Stretch
from cloud_hub.store.stamps import ClockNews, Stamps, write_stamps
from cloud_hub.store.statements import insert_many, upsert
from cloud_hub.store.tables import (
    dead_letters,
    devices,
    escalations,
    events,
    gaps,
    revisions,
    rollups,
    telemetry,
    watermarks,
)

Values = dict[str, Any]


@dataclass(slots=True)
class Batch:
    """Rows for the tables, as the columns name them, and which rows of which lane they stand for.

    `rows` are the numbers that came as rows, with their readings; `covered` and `thinned` need no row any
    more: shed by the device, or set aside here.
    """

    received_s: float
    telemetry: list[Values] = field(default_factory=list)
    events: list[Values] = field(default_factory=list)
    gaps: list[Values] = field(default_factory=list)
    rollups: list[Values] = field(default_factory=list)
    escalations: list[Values] = field(default_factory=list)
    revisions: list[Values] = field(default_factory=list)
    dead_letters: list[Values] = field(default_factory=list)
    set_aside: int = 0
    """Rows and messages that cannot be used; of many only some are kept as dead letters."""
    stamps: Stamps = field(default_factory=Stamps)
    rows: dict[LaneKey, dict[int, int]] = field(default_factory=dict)
    covered: dict[LaneKey, list[Range]] = field(default_factory=dict)
    thinned: dict[LaneKey, list[Stretch]] = field(default_factory=dict)

    @property
    def devices(self) -> set[str]:
        """Every device that something came from."""
        keyed = {key[0] for key in (*self.rows, *self.covered, *self.thinned)}
        return keyed | {letter["device"] for letter in self.dead_letters if letter["device"]}


@dataclass(frozen=True, slots=True)
class Applied:
    """What a batch changed: rows and readings that are new, rows that were settled already."""

    rows: int
    readings: int
    duplicates: int
    clocks: ClockNews = field(default=ClockNews(), compare=False)


async def apply_batch(
    connection: AsyncConnection, batch: Batch, *, max_dead_letters: int
) -> Applied:
    """Stores the batch; applying it again, or parts of it in other company, changes nothing.

    Duplicates are told by the watermarks, which change in this very transaction. Of more than
    `max_dead_letters` the oldest go; of more in one batch the first are kept.
    """
    await insert_many(connection, telemetry, batch.telemetry)
    await insert_many(connection, events, batch.events)
    await insert_many(connection, gaps, batch.gaps)
    await insert_many(connection, rollups, batch.rollups)
    await insert_many(connection, escalations, batch.escalations)
    await insert_many(connection, revisions, batch.revisions)
    await _insert_dead_letters(connection, batch.dead_letters, max_dead_letters)
    await touch_devices(connection, batch.devices, seen_s=batch.received_s)
    clocks = await write_stamps(connection, batch.stamps, now_s=batch.received_s)
    applied, settled = await _advance(connection, batch)
    await count_gaps(connection, _recounted(batch, settled))
    return replace(applied, clocks=clocks)


def _recounted(batch: Batch, settled: Mapping[LaneKey, Range]) -> dict[LaneKey, list[Range]]:
    """The stretches in which gap records may have got another count: new records, and rows that came late.

    A row that was settled before it came is a repetition, or one that a gap record gave up too early.
    """
    spans: dict[LaneKey, list[Range]] = {key: [span] for key, span in settled.items()}
    for gap in batch.gaps:
        key = (gap["device"], gap["gap_epoch"], gap["gap_lane"])
        spans.setdefault(key, []).append((gap["first"], gap["last"]))
    return spans


async def load_marks(connection: AsyncConnection, keys: Iterable[LaneKey]) -> dict[LaneKey, Marks]:
    """The marks of these lanes; one that nothing was stored of yet has empty marks."""
    marks = {key: Marks() for key in keys}
    if not marks:
        return marks
    columns = (watermarks.c.device, watermarks.c.epoch, watermarks.c.lane)
    statement = select(*columns, watermarks.c.marks).where(tuple_(*columns).in_(list(marks)))
    for device, epoch, lane, stored in await connection.execute(statement):
        marks[device, epoch, lane] = msgspec.json.decode(stored, type=Marks)
    return marks


async def touch_devices(
    connection: AsyncConnection, names: Iterable[str], *, seen_s: float
) -> None:
    """Makes the devices known, and notes when they were last heard of."""
    rows = [
        {"device": name, "first_seen_s": seen_s, "last_seen_s": seen_s, "revision_seq": 0}
        for name in sorted(names)
    ]
    if rows:
        await connection.execute(upsert(connection, devices, update=("last_seen_s",)), rows)


async def _insert_dead_letters(connection: AsyncConnection, rows: list[Values], most: int) -> None:
    if not rows:
        return
    await insert_many(connection, dead_letters, rows[:most])
    kept = await connection.scalar(select(func.count()).select_from(dead_letters)) or 0
    if kept <= most:
        return
    # A tenth more than needed goes, so that a flood does not search for the oldest in every commit.
    oldest = (
        select(dead_letters.c.digest)
        .order_by(dead_letters.c.received_s, dead_letters.c.digest)
        .limit(kept - most + most // 10)
    )
    await connection.execute(delete(dead_letters).where(dead_letters.c.digest.in_(oldest)))


async def _advance(
    connection: AsyncConnection, batch: Batch
) -> tuple[Applied, dict[LaneKey, Range]]:
    """What was new, and between which numbers rows of a lane came that were settled before."""
    keys = {*batch.rows, *batch.covered, *batch.thinned}
    before = await load_marks(connection, keys)
    rows = readings = duplicates = 0
    changed: list[Values] = []
    settled: dict[LaneKey, Range] = {}
    for key in sorted(keys):
        arrived: Mapping[int, int] = batch.rows.get(key, {})
        marks = before[key]
        fresh = [count for seq, count in arrived.items() if seq not in marks]
        rows += len(fresh)
        readings += sum(fresh)
        if len(fresh) < len(arrived):
            duplicates += len(arrived) - len(fresh)
            again = [seq for seq in arrived if seq in marks]
            settled[key] = (min(again), max(again))
        after = marks.add(
            rows=arrived, covered=batch.covered.get(key, []), thinned=batch.thinned.get(key, [])
        )
        if after != marks:
            changed.append(_watermark(key, after, batch.received_s))
    if changed:
        statement = upsert(connection, watermarks, update=("applied", "marks", "updated_s"))
        await connection.execute(statement, changed)
    return Applied(rows, readings, duplicates), settled


def _watermark(key: LaneKey, marks: Marks, now_s: float) -> Values:
    device, epoch, lane = key
    return {
        "device": device,
        "epoch": epoch,
        "lane": lane,
        "applied": marks.applied,
        "marks": msgspec.json.encode(marks).decode(),
        "updated_s": now_s,
    }
