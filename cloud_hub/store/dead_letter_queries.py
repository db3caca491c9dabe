"""What was set aside because it cannot be used, newest first."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_hub.store.tables import dead_letters

SAMPLE_BYTES = 64


async def list_dead_letters(
    connection: AsyncConnection, *, device: str | None = None, limit: int = 100
) -> list[dict[str, Any]]:
    """The newest `limit` dead letters, of one device or of all: where from, which rows, why, how they begin."""
    c = dead_letters.c
    statement = select(dead_letters).order_by(c.received_s.desc(), c.digest).limit(limit)
    if device is not None:
        statement = statement.where(c.device == device)
    return [
        {
            "digest": row.digest,
            "received_s": row.received_s,
            "device": row.device,
            "subject": row.subject,
            "epoch": row.epoch,
            "lane": row.lane,
            "first": row.first,
            "last": row.last,
            "reason": row.reason,
            "size": row.size,
            "begins": (row.body or b"")[:SAMPLE_BYTES].hex(),
        }
        for row in await connection.execute(statement)
    ]
