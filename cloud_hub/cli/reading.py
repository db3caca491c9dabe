"""Opens the hub's database for a command that only reads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, TypeVar

from cloud_hub.errors import HubError
from cloud_hub.settings import load_settings
from cloud_hub.store.database import Connection, Database, Work
from cloud_hub.store.fleet_queries import is_known, show_device

T = TypeVar("T")


def read(config: Path | None, work: Work[T]) -> T:
    """What `work` reads from the database of this configuration; raises HubError for people."""
    url = load_settings(config).store.resolved_url

    async def run() -> T:
        database = await Database.open_reader(url)
        try:
            return await database.read(work)
        finally:
            await database.close()

    return asyncio.run(run())


async def check_known(connection: Connection, device: str) -> None:
    """Raises HubError for a device that nobody has heard of."""
    if not await is_known(connection, device):
        raise HubError(
            f"no device {device!r} has been heard of; `cloud-hub device list` shows those that were"
        )


async def shown_device(connection: Connection, device: str) -> dict[str, Any]:
    """What is known of a device; raises HubError for one that nobody has heard of."""
    await check_known(connection, device)
    return await show_device(connection, device) or {}
