"""Where devices gave readings up: each record between its neighbours in time, counted by what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_hub.store.tables import gaps, telemetry
from contract.status import Lane


@dataclass(frozen=True, slots=True)
class DeclaredGap:
    """Readings that a device gave up; they lie between the two times, as far as stored rows can tell.

    `readings` are missing here. `declared` were given up, and `held` of them came all the same, so that
    readings = declared - held. They are of any of the device's streams. `epoch` is the outbox they were in;
    where `exact` is false nobody counted them.
    """

    first: int
    last: int
    stride: int
    readings: int
    reason: str
    after_s: float | None
    before_s: float | None
    declared: int
    held: int
    epoch: str
    exact: bool


async def declared_gaps(
    connection: AsyncConnection,
    device: str,
    *,
    from_s: float | None = None,
    to_s: float | None = None,
) -> tuple[DeclaredGap, ...]:
    """The gaps in telemetry that may lie in the range: a gap has numbers, its neighbours have times.

    A record of which all rows came all the same is no gap. A thinned stretch is one gap, from the row before
    its first to the row after its last, though rows in it are kept.
    """
    g = gaps.c
    statement = (
        select(
            g.first, g.last, g.stride, g.readings, g.reason, _after(), _before(),
            g.declared, g.held_readings, g.gap_epoch, g.exact,
        )
        .where(g.device == device, g.gap_lane == Lane.TEL)
        .order_by(g.gap_epoch, g.first, g.last)
    )  # fmt: skip
    found = [DeclaredGap(*row) for row in await connection.execute(statement)]
    return tuple(
        gap
        for gap in found
        if (gap.readings or not gap.exact)
        and (from_s is None or gap.before_s is None or gap.before_s >= from_s)
        and (to_s is None or gap.after_s is None or gap.after_s < to_s)
    )


def _after() -> Any:
    """The latest time of the nearest row below the gap."""
    return _neighbour(
        func.max(telemetry.c.t_max), func.max(telemetry.c.seq), telemetry.c.seq < gaps.c.first
    )


def _before() -> Any:
    """The earliest time of the nearest row above the gap."""
    return _neighbour(
        func.min(telemetry.c.t_min), func.min(telemetry.c.seq), telemetry.c.seq > gaps.c.last
    )


def _neighbour(time: Any, nearest: Any, beyond: Any) -> Any:
    t = telemetry.c
    same = (t.device == gaps.c.device) & (t.epoch == gaps.c.gap_epoch) & (t.lane == Lane.TEL)
    near = select(nearest).where(same, beyond).correlate(gaps).scalar_subquery()
    return select(time).where(same, t.seq == near).correlate(gaps).scalar_subquery()
