"""Readings by stream and time, with the gaps that devices declared, so that a hole is seen as a hole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, RowMapping, select
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_hub.store.gap_queries import DeclaredGap, declared_gaps
from cloud_hub.store.tables import telemetry

MAX_READINGS = 1_000_000

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Readings:
    """Some readings of one stream in columns: times, arrivals and own [n], values [n, c], flags [n].

    `own` are payloads' own times that were not simply used, else NaN. `shift_s` is by how much the hub
    corrected the arrivals, and the times that follow from them; None where it did not look at them.
    """

    stream: str
    channels: tuple[str, ...]
    units: tuple[str, ...]
    times: F64
    arrivals: F64
    values: F64
    flags: NDArray[np.uint8]
    own: F64
    shift_s: float | None


@dataclass(frozen=True, slots=True)
class TelemetryAnswer:
    """Groups in order of time; `truncated` when older readings of the range were left out."""

    groups: tuple[Readings, ...]
    gaps: tuple[DeclaredGap, ...]
    truncated: bool


async def query_telemetry(
    connection: AsyncConnection,
    device: str,
    *,
    stream: str | None = None,
    from_s: float | None = None,
    to_s: float | None = None,
    limit: int = 1000,
) -> TelemetryAnswer:
    """The newest `limit` readings of a device in from_s ≤ time < to_s, in order of time, and its gaps."""
    c = telemetry.c
    where = _within_range(device, stream, from_s, to_s)
    statement = (
        select(telemetry).where(*where).order_by(c.t_max.desc(), c.seq.desc(), c.first.desc())
    )
    groups: list[Readings] = []
    found, truncated = 0, False
    async with connection.stream(statement.limit(MAX_READINGS)) as rows:
        async for row in rows.mappings():
            group = _within(_unpack(row), from_s, to_s)
            if found + len(group.times) > limit:
                group, truncated = _newest(group, limit - found), True
            found += len(group.times)
            if len(group.times):
                groups.append(group)
            if truncated:
                break
    declared = await declared_gaps(connection, device, from_s=from_s, to_s=to_s)
    return TelemetryAnswer(tuple(reversed(groups)), declared, truncated)


async def stream_readings(
    connection: AsyncConnection,
    device: str,
    *,
    stream: str | None = None,
    from_s: float | None = None,
    to_s: float | None = None,
) -> AsyncIterator[Readings]:
    """Every reading of a device in from_s ≤ time < to_s, once, a group at a time, in no particular order."""
    where = _within_range(device, stream, from_s, to_s)
    async with connection.stream(select(telemetry).where(*where)) as rows:
        async for row in rows.mappings():
            group = _within(_unpack(row), from_s, to_s)
            if len(group.times):
                yield group


def _within_range(
    device: str, stream: str | None, from_s: float | None, to_s: float | None
) -> list[ColumnElement[bool]]:
    c = telemetry.c
    where: list[ColumnElement[bool]] = [c.device == device]
    if stream is not None:
        where.append(c.stream == stream)
    if from_s is not None:
        where.append(c.t_max >= from_s)
    if to_s is not None:
        where.append(c.t_min < to_s)
    return where


def _unpack(row: RowMapping) -> Readings:
    channels = msgspec.json.decode(row["channels"], type=tuple[str, ...])
    return Readings(
        stream=row["stream"],
        channels=channels,
        units=msgspec.json.decode(row["units"], type=tuple[str, ...]),
        times=np.frombuffer(row["times"], "<f8"),
        arrivals=np.frombuffer(row["arrivals"], "<f8"),
        values=np.frombuffer(row["values"], "<f8").reshape(row["count"], len(channels)),
        flags=np.frombuffer(row["flags"], "u1"),
        own=np.frombuffer(row["own"], "<f8") if row["own"] else np.full(row["count"], np.nan),
        shift_s=row["shift_s"],
    )


def _within(group: Readings, from_s: float | None, to_s: float | None) -> Readings:
    keep = np.ones(len(group.times), dtype=np.bool_)
    if from_s is not None:
        keep &= group.times >= from_s
    if to_s is not None:
        keep &= group.times < to_s
    return group if keep.all() else _select(group, np.flatnonzero(keep))


def _newest(group: Readings, count: int) -> Readings:
    order = np.argsort(group.times, kind="stable")
    return _select(group, np.sort(order[len(order) - count :]))


def _select(group: Readings, index: NDArray[np.intp]) -> Readings:
    return Readings(
        stream=group.stream,
        channels=group.channels,
        units=group.units,
        times=group.times[index],
        arrivals=group.arrivals[index],
        values=group.values[index],
        flags=group.flags[index],
        own=group.own[index],
        shift_s=group.shift_s,
    )
