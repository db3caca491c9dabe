"""Asks devices to ask: those with new revisions soon, and every known device once when the hub starts."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from cloud_hub.errors import StoreError
from cloud_hub.store.database import Database
from cloud_hub.store.fleet_queries import known_devices
from cloud_hub.types import Post
from contract.subjects import nudge_subject

PAUSE_S: Final = 0.2
"""Revisions that come together lead to one nudge."""
AT_ONCE: Final = 100

log = structlog.get_logger()


class Nudges:
    """Sends nudges, each device at most once in a short while; a nudge carries nothing and may be lost."""

    def __init__(self, *, database: Database, post: Post) -> None:
        self._database = database
        self._post = post
        self._wanted: set[str] = set()
        self._something = asyncio.Event()

    def want(self, device: str) -> None:
        """Says that a device should ask."""
        self._wanted.add(device)
        self._something.set()

    async def greet(self) -> None:
        """Wants a nudge for every device that the database knows."""
        try:
            names = await self._database.read(known_devices)
        except StoreError as error:
            log.warning("greet_store_failed", error=str(error))
            return
        self._wanted.update(names)
        self._something.set()

    async def run(self) -> None:
        """Sends until cancelled."""
        while True:
            await self._something.wait()
            await asyncio.sleep(PAUSE_S)
            self._something.clear()
            wanted, self._wanted = sorted(self._wanted), set()
            for first in range(0, len(wanted), AT_ONCE):
                for device in wanted[first : first + AT_ONCE]:
                    self._post.post(nudge_subject(device), b"")
                await asyncio.sleep(0)
