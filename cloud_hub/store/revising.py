"""Escalations that wait, the revisions that answer them, and their numbers; each verdict is revised once."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_hub.store.tables import devices, escalations, revisions
from contract.messages import Escalation, Revision

WAITING = "waiting"
ANSWERED = "answered"
REFUSED = "refused"
NO_MODEL = "no_model"
HUB = "hub"
DEVICE = "device"


@dataclass(frozen=True, slots=True)
class Waiting:
    """An escalation that was stored and not answered yet."""

    device: str
    model: str
    attempts: int
    escalation: Escalation


async def waiting_escalations(connection: AsyncConnection, *, limit: int) -> list[Waiting]:
    """The oldest escalations that wait for an answer."""
    statement = (
        select(escalations)
        .where(escalations.c.state == WAITING)
        .order_by(escalations.c.received_s, escalations.c.device, escalations.c.seq)
        .limit(limit)
    )
    return [
        Waiting(
            row.device, row.model, row.attempts, msgspec.msgpack.decode(row.body, type=Escalation)
        )
        for row in await connection.execute(statement)
    ]


async def revive_escalations(connection: AsyncConnection, models: tuple[str, ...]) -> int:
    """Lets escalations wait again whose model was missing and is there now; returns how many."""
    statement = (
        update(escalations)
        .where(escalations.c.state == NO_MODEL, escalations.c.model.in_(models))
        .values(state=WAITING)
    )
    return (await connection.execute(statement)).rowcount


async def settle_escalation(
    connection: AsyncConnection,
    device: str,
    verdict: str,
    *,
    state: str,
    reason: str,
    attempts: int,
) -> None:
    """Notes that an escalation was not answered, and why; an answered one stays answered."""
    statement = (
        update(escalations)
        .where(
            escalations.c.device == device,
            escalations.c.verdict == verdict,
            escalations.c.state != ANSWERED,
        )
        .values(state=state, reason=reason, attempts=attempts)
    )
    await connection.execute(statement)


async def answer_escalation(
    connection: AsyncConnection, device: str, revision: Revision, *, made_s: float
) -> int:
    """Stores the revision under the device's next number and returns it; 0 if the verdict has one already."""
    taken = await connection.execute(
        update(escalations)
        .where(
            escalations.c.device == device,
            escalations.c.verdict == revision.verdict,
            escalations.c.state != ANSWERED,
        )
        .values(state=ANSWERED, reason="")
    )
    if not taken.rowcount:
        return 0
    seq = await connection.scalar(
        update(devices)
        .where(devices.c.device == device)
        .values(revision_seq=devices.c.revision_seq + 1)
        .returning(devices.c.revision_seq)
    )
    assert seq is not None  # an escalation makes its device known in the same transaction
    values = revision_values(device, revision, source=HUB, made_s=made_s)
    await connection.execute(revisions.insert().values(**{**values, "seq": seq}))
    return int(seq)


def revision_values(
    device: str, revision: Revision, *, source: str, made_s: float
) -> dict[str, object]:
    """The columns of a revision; one that a device reports has no number."""
    return {
        "device": device,
        "verdict": revision.verdict,
        "source": source,
        "seq": None,
        "stream": revision.stream,
        "label": revision.label,
        "score": revision.score,
        "confidence": revision.confidence,
        "model": revision.model,
        "release": revision.release,
        "time_s": revision.time_s,
        "made_s": made_s,
    }


async def revisions_above(
    connection: AsyncConnection, device: str, seq: int, *, limit: int
) -> tuple[Revision, ...]:
    """The hub's revisions for a device above a number, in order."""
    c = revisions.c
    statement = (
        select(
            c.verdict, c.stream, c.label, c.score, c.confidence, c.model, c.release, c.time_s, c.seq
        )
        .where(c.device == device, c.source == HUB, c.seq > seq)
        .order_by(c.seq)
        .limit(limit)
    )
    return tuple(Revision(*row) for row in await connection.execute(statement))


async def revisions_given(connection: AsyncConnection, device: str) -> int:
    """The highest number that a device's revisions have; 0 for a device that is not known."""
    given = await connection.scalar(
        select(devices.c.revision_seq).where(devices.c.device == device)
    )
    return int(given or 0)


async def renumber_revisions(connection: AsyncConnection, device: str, above: int) -> None:
    """Moves a device's revisions above a number that it has seen and this database has not given.

    A device may remember numbers of a database that is gone; without this it would never take a new one.
    """
    current = await connection.scalar(
        select(devices.c.revision_seq).where(devices.c.device == device)
    )
    if current is None or current >= above:
        return
    await connection.execute(
        update(revisions)
        .where(revisions.c.device == device, revisions.c.source == HUB)
        .values(seq=revisions.c.seq + above)
    )
    await connection.execute(
        update(devices)
        .where(devices.c.device == device)
        .values(revision_seq=devices.c.revision_seq + above)
    )
