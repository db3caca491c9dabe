"""Opens the hub's database for a command that only reads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeVar

from cloud_hub.settings import load_settings
from cloud_hub.store.database import Database, Work

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
