"""Statements that SQLite and PostgreSQL spell alike but SQLAlchemy keeps apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection


def insert_ignore(connection: AsyncConnection, table: Table) -> Any:
    """INSERT … ON CONFLICT DO NOTHING: a row whose key is there already changes nothing."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


async def insert_many(
    connection: AsyncConnection, table: Table, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Inserts rows with the same keys; those that are there already change nothing.

    The values go to the driver as they are: SQLAlchemy's handling of each parameter would cost more than
    the insert itself, so rows hold only what both drivers take (str, int, float, bool, bytes, None).
    """
    if not rows:
        return
    compiled = insert_ignore(connection, table).compile(
        dialect=connection.dialect, column_keys=list(rows[0])
    )
    values = itemgetter(*compiled.positiontup)
    await connection.exec_driver_sql(str(compiled), [values(row) for row in rows])


def upsert(connection: AsyncConnection, table: Table, *, update: tuple[str, ...]) -> Any:
    """INSERT … ON CONFLICT (primary key) DO UPDATE of the named columns."""
    kind = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = kind.insert(table)
    return statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns),
        set_={name: statement.excluded[name] for name in update},
    )
