"""Brings an older database up to the schema of this hub, in the transaction that found it old.

Each step changes the tables of one version into those of the next, and is never edited once it was
released. Alembic does the spelling for either database; its own bookkeeping is not used, since the stamp in
`hub_meta` says where to begin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cloud_hub.store.tables import (
    SCHEMA_VERSION,
    clock_columns,
    clock_indexes,
    clock_marks,
    hub_meta,
)

if TYPE_CHECKING:
    from alembic.operations import Operations


def can_upgrade(found: str | None) -> bool:
    """Whether there are steps from this stamp to the schema of this hub."""
    return found is not None and found.isdigit() and int(found) in _STEPS


def load_tool() -> None:
    """Imports what `upgrade` needs, which reads files: to be called off the event loop."""
    import alembic.migration
    import alembic.operations  # noqa: F401


def upgrade(connection: Connection, found: str) -> None:
    """Takes every step from the stamp `found` on, and writes the new stamp."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    operations = Operations(MigrationContext.configure(connection))
    for version in range(int(found), SCHEMA_VERSION):
        _STEPS[version](operations)
    stamp = sa.update(hub_meta).where(hub_meta.c.key == "schema_version")
    connection.execute(stamp.values(value=str(SCHEMA_VERSION)))


def _clocks_and_gaps(operations: Operations) -> None:
    """1 → 2: times that can be repaired, and gaps that are counted by what is here."""
    operations.add_column("telemetry", sa.Column("shift_s", sa.Float))
    operations.add_column("telemetry", sa.Column("own", sa.LargeBinary))
    for table in ("events", "rollups"):
        for column in clock_columns(needed=False):
            operations.add_column(table, column)
    for table in ("telemetry", "events", "rollups"):
        for index in clock_indexes(table):
            _create_index(operations, index, table)
    for column in (
        sa.Column("gap_epoch", sa.String(64), nullable=False, server_default=""),
        sa.Column("declared", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("held_rows", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("held_readings", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("exact", sa.Boolean, nullable=False, server_default=sa.true()),
    ):
        operations.add_column("gaps", column)
    operations.execute("UPDATE gaps SET gap_epoch = epoch, declared = readings")
    operations.create_index("gaps_by_lane", "gaps", ["device", "gap_epoch", "gap_lane", "first"])
    clock_marks.create(operations.get_bind())


def _create_index(operations: Operations, index: sa.Index, table: str) -> None:
    columns = [str(column) for column in index._pending_colargs]
    where = {
        f"{name}_where": index.dialect_options[name]["where"] for name in ("sqlite", "postgresql")
    }
    operations.create_index(str(index.name), table, columns, **where)


_STEPS: Final[dict[int, Callable[[Operations], None]]] = {1: _clocks_and_gaps}
