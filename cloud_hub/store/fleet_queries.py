"""What is known of devices: presence, watermarks, and sums over rows that are stored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import case, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_hub.store.apply import touch_devices
from cloud_hub.store.marks import Marks
from cloud_hub.store.tables import (
    clock_marks,
    dead_letters,
    devices,
    escalations,
    events,
    gaps,
    revisions,
    telemetry,
    watermarks,
)

Record = dict[str, Any]


async def list_devices(connection: AsyncConnection) -> list[Record]:
    """Every device: when it was seen, how many readings are stored, revisions given, dead letters."""
    readings = await _sums(connection, telemetry.c.device, func.sum(telemetry.c.count))
    letters = await _sums(connection, dead_letters.c.device, func.count())
    seen = await _sums(connection, events.c.device, func.count())
    rows = await connection.execute(select(devices).order_by(devices.c.device))
    return [
        {
            "device": row.device,
            "first_seen_s": row.first_seen_s,
            "last_seen_s": row.last_seen_s,
            "readings": readings.get(row.device, 0),
            "events": seen.get(row.device, 0),
            "revisions": row.revision_seq,
            "dead_letters": letters.get(row.device, 0),
            "state": None if row.state is None else msgspec.json.decode(row.state),
        }
        for row in rows
    ]


async def known_devices(connection: AsyncConnection) -> list[str]:
    """The name of every device, in order."""
    return list(await connection.scalars(select(devices.c.device).order_by(devices.c.device)))


async def is_known(connection: AsyncConnection, device: str) -> bool:
    """Whether a device was ever heard of."""
    found = await connection.scalar(select(devices.c.device).where(devices.c.device == device))
    return found is not None


async def show_device(connection: AsyncConnection, device: str) -> Record | None:
    """All that is known of one device, or None if nothing is."""
    row = (await connection.execute(select(devices).where(devices.c.device == device))).first()
    if row is None:
        return None
    return {
        "device": row.device,
        "first_seen_s": row.first_seen_s,
        "last_seen_s": row.last_seen_s,
        "state_seen_s": row.state_seen_s,
        "state": None if row.state is None else msgspec.json.decode(row.state),
        "revisions": row.revision_seq,
        "lanes": await _lanes(connection, device),
        "streams": await _streams(connection, device),
        "events": await _counts(connection, events.c.kind, events.c.device == device),
        "escalations": await _counts(
            connection, escalations.c.state, escalations.c.device == device
        ),
        "revised": await _counts(connection, revisions.c.source, revisions.c.device == device),
        "gaps": await _gaps(connection, device),
        "times": await _times(connection, device),
        "dead_letters": await _counts(
            connection, dead_letters.c.reason, dead_letters.c.device == device
        ),
    }


async def save_states(
    connection: AsyncConnection, states: Sequence[tuple[str, bytes, float]]
) -> None:
    """Notes what devices (name, state as JSON, time seen) last reported."""
    for device, state, seen_s in states:
        await touch_devices(connection, [device], seen_s=seen_s)
        await connection.execute(
            update(devices)
            .where(devices.c.device == device)
            .values(state=state.decode(), state_seen_s=seen_s)
        )


async def _sums(connection: AsyncConnection, by: Any, what: Any) -> dict[str, int]:
    rows = await connection.execute(select(by, what).group_by(by))
    return {device: int(total) for device, total in rows}


async def _counts(connection: AsyncConnection, by: Any, where: Any) -> dict[str, int]:
    rows = await connection.execute(select(by, func.count()).where(where).group_by(by).order_by(by))
    return {str(name): count for name, count in rows}


async def _lanes(connection: AsyncConnection, device: str) -> list[Record]:
    order = (watermarks.c.updated_s, watermarks.c.lane)
    rows = await connection.execute(
        select(watermarks).where(watermarks.c.device == device).order_by(*order)
    )
    lanes: list[Record] = []
    for row in rows:
        marks = msgspec.json.decode(row.marks, type=Marks)
        lanes.append(
            {
                "epoch": row.epoch,
                "lane": row.lane,
                "applied": row.applied,
                "missing": marks.missing(limit=64),
                "updated_s": row.updated_s,
            }
        )
    return lanes


async def _streams(connection: AsyncConnection, device: str) -> list[Record]:
    c = telemetry.c
    statement = (
        select(c.stream, func.sum(c.count), func.min(c.t_min), func.max(c.t_max))
        .where(c.device == device)
        .group_by(c.stream)
        .order_by(c.stream)
    )
    return [
        {"stream": stream, "readings": int(total), "from_s": first, "to_s": last}
        for stream, total, first, last in await connection.execute(statement)
    ]


async def _gaps(connection: AsyncConnection, device: str) -> Record:
    c = gaps.c
    guessed = case((c.exact, 0), else_=1)
    sums = [func.coalesce(func.sum(each), 0) for each in (c.readings, c.held_readings, guessed)]
    statement = select(func.count(), *sums).where(c.device == device)
    count, readings, held, inexact = (await connection.execute(statement)).one()
    return {
        "records": count,
        "readings": int(readings),
        "held": int(held),
        "exact": not inexact,
    }


async def _times(connection: AsyncConnection, device: str) -> Record:
    """Readings whose device did not know the time: repaired, found right, or still in doubt, and of which boots.

    Those in doubt are repaired when a trusted stamp of the same boot comes, and of no other boot.
    """
    c, marks = telemetry.c, clock_marks.c
    doubtful = (c.device == device, ~c.clock_trusted)
    statement = (
        select(c.shift_s.is_(None), c.shift_s == 0, func.sum(c.count))
        .where(*doubtful)
        .group_by(c.shift_s.is_(None), c.shift_s == 0)
    )
    found = {"in_doubt": 0, "repaired": 0, "found_right": 0}
    for waits, right, readings in await connection.execute(statement):
        found["in_doubt" if waits else "found_right" if right else "repaired"] = int(readings)
    told = select(marks.boot).where(marks.device == device)
    boots = select(c.boot).where(*doubtful, c.shift_s.is_(None), c.boot.not_in(told)).distinct()
    waiting = list(await connection.scalars(boots))
    return {**found, "boots_in_doubt": sorted(waiting)}
