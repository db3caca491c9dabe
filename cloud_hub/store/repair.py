"""Corrects the times of rows whose device did not know the time, once a stamp of the same boot tells it.

What was sent stays recoverable: `shift_s` says by how much the times of a row were moved, a payload's own
time is kept beside them (`own`), and the payload of an event is never touched. Doing it again changes
nothing, and moving from one shift to another is the same as having been given the other at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sqlalchemy import Row, Table, bindparam, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_hub.store.clocks import Span, shift_of
from cloud_hub.store.stamps import Boot, load_spans
from cloud_hub.store.tables import events, rollups, telemetry
from contract.trust import ReadingFlag, plausible

SLICE_ROWS: Final = 128
FOLLOWS_S: Final = 3600.0
"""An event's time comes from the device's clock if it is nearer to it than this, and not nearer to the truth."""
Repairable = Table
"""A table whose rows carry the clocks of a device; other rooms name the type by this door."""
TABLES: Final[tuple[Table, ...]] = (telemetry, events, rollups)
Values = dict[str, Any]

_CLOCK_UNTRUSTED: Final = np.uint8(ReadingFlag.CLOCK_UNTRUSTED)
_TIME_UNTRUSTED: Final = np.uint8(ReadingFlag.TIME_UNTRUSTED)
_TIME_REPAIRED: Final = np.uint8(ReadingFlag.TIME_REPAIRED)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a pass over rows that were repaired before has come to."""

    mono_s: float = -np.inf
    epoch: str = ""
    seq: int = 0
    first: int = -1


@dataclass(frozen=True, slots=True)
class Slice:
    """What one slice did: rows looked at, rows and readings whose times were moved, and where to go on."""

    looked_at: int
    rows: int
    readings: int
    shift_s: float
    """The largest correction, by amount."""
    cursor: Cursor | None


async def repair_slice(
    connection: AsyncConnection, table: Table, boot: Boot, *, after: Cursor | None = None
) -> Slice:
    """Repairs the next rows of a boot that were not repaired yet; with `after`, looks at all again from there."""
    spans = (await load_spans(connection, [boot])).get(boot, ())
    if not spans:
        return Slice(0, 0, 0, 0.0, None)
    found = (await connection.execute(_due(table, boot, after))).all()
    changes = [change for row in found if (change := _change(table, row, spans)) is not None]
    await _write(connection, table, changes)
    moved = [change for change in changes if change["moved"]]
    return Slice(
        looked_at=len(found),
        rows=len(moved),
        readings=sum(change["readings"] for change in moved),
        shift_s=max((change["to_shift_s"] for change in moved), key=abs, default=0.0),
        cursor=_cursor(table, found[-1]) if found else None,
    )


def repaired_group(group: Values, *, move_s: float, total_s: float) -> Values:
    """The columns of readings after their arrivals moved by `move_s`, `total_s` in all since they came.

    A time that is its arrival moves with it; a payload's own time stays, and is judged again.
    """
    times = np.frombuffer(group["times"], "<f8")
    arrivals = np.frombuffer(group["arrivals"], "<f8")
    flags = np.frombuffer(group["flags"], "u1")
    follows = times == arrivals
    arrivals = arrivals + move_s
    times = np.where(follows, arrivals, times)
    flags = flags & ~_CLOCK_UNTRUSTED & ~_TIME_REPAIRED
    if total_s:
        flags = flags | _TIME_REPAIRED
    if group["own"]:
        own = np.frombuffer(group["own"], "<f8")
        right, has = plausible(own, arrivals), ~np.isnan(own)
        times = np.where(has, np.where(right, own, arrivals), times)
        judged = np.where(right, flags & ~_TIME_UNTRUSTED, flags | _TIME_UNTRUSTED)
        flags = np.where(has, judged, flags)
    return {
        "times": times.tobytes(),
        "arrivals": arrivals.tobytes(),
        "flags": flags.astype(np.uint8).tobytes(),
        "t_min": float(times.min()),
        "t_max": float(times.max()),
    }


def repaired_time(time_s: float, *, wall_s: float, move_s: float) -> float:
    """The time of an event after the clock that stamped it with `wall_s` was moved.

    An event's time is its last reading's: it moves only if the device's clock gave it, and not the payload.
    """
    apart_s = abs(time_s - wall_s)
    follows = apart_s <= FOLLOWS_S and apart_s < abs(time_s - (wall_s + move_s))
    return time_s + move_s if follows else time_s


def _due(table: Table, boot: Boot, after: Cursor | None) -> Any:
    c = table.c
    statement = select(table).where(c.device == boot[0], c.boot == boot[1], ~c.clock_trusted)
    if after is None:
        return statement.where(c.shift_s.is_(None)).limit(SLICE_ROWS)
    keys = [c.mono_s, c.epoch, c.seq]
    place: list[Any] = [after.mono_s, after.epoch, after.seq]
    if "first" in c:
        keys.append(c.first)
        place.append(after.first)
    statement = statement.where(c.shift_s.is_not(None), tuple_(*keys) > tuple_(*place))
    return statement.order_by(*keys).limit(SLICE_ROWS)


def _change(table: Table, row: Row[Any], spans: Sequence[Span]) -> Values | None:
    total_s = shift_of(spans, mono_s=row.mono_s, wall_s=row.wall_s)
    if total_s is None or total_s == row.shift_s:
        return None
    before_s = row.shift_s or 0.0
    values = _REPAIRS[table](row, total_s - before_s, total_s, before_s)
    change: Values = {f"to_{name}": value for name, value in values.items()}
    change |= {f"key_{column.name}": getattr(row, column.name) for column in table.primary_key}
    change["to_shift_s"] = total_s
    change["was_shift_s"] = row.shift_s
    change["moved"] = bool(total_s)
    change["readings"] = row.count if table is telemetry else 0
    return change


def _telemetry(row: Row[Any], move_s: float, total_s: float, _: float) -> Values:
    group = {name: getattr(row, name) for name in ("times", "arrivals", "flags", "own")}
    return repaired_group(group, move_s=move_s, total_s=total_s)


def _event(row: Row[Any], move_s: float, _: float, before_s: float) -> Values:
    wall_s = row.wall_s + before_s
    return {"time_s": repaired_time(row.time_s, wall_s=wall_s, move_s=move_s)}


def _rollup(row: Row[Any], move_s: float, _: float, __: float) -> Values:
    return {"from_s": row.from_s + move_s, "to_s": row.to_s + move_s}


_REPAIRS: Final[dict[Table, Callable[[Row[Any], float, float, float], Values]]] = {
    telemetry: _telemetry,
    events: _event,
    rollups: _rollup,
}


async def _write(connection: AsyncConnection, table: Table, changes: list[Values]) -> None:
    """Updates rows that nobody has moved meanwhile: two hubs may repair the same boot."""
    if not changes:
        return
    columns = [name for name in changes[0] if name.startswith("to_")]
    first_time = changes[0]["was_shift_s"] is None
    was = table.c.shift_s.is_(None) if first_time else table.c.shift_s == bindparam("was_shift_s")
    statement = (
        update(table)
        .where(*(column == bindparam(f"key_{column.name}") for column in table.primary_key), was)
        .values({name.removeprefix("to_"): bindparam(name) for name in columns})
    )
    taken = {"moved", "readings", *(("was_shift_s",) if first_time else ())}
    rows = [{name: value for name, value in row.items() if name not in taken} for row in changes]
    await connection.execute(statement, rows)


def _cursor(table: Table, row: Row[Any]) -> Cursor:
    first = row.first if table is telemetry else -1
    return Cursor(row.mono_s, row.epoch, row.seq, first)
