"""Refuses a server that acknowledges before it has synced: its power cut would lose what devices deleted."""

from __future__ import annotations

import asyncio
from typing import Final

import httpx
import structlog
from nats.aio.client import Client

from cloud_hub.errors import StartRefused
from cloud_hub.settings import NatsSettings

TRIES: Final = 5
PAUSE_S: Final = 1.0
TIMEOUT_S: Final = 3.0

log = structlog.get_logger()


class SyncCheck:
    """A preparation: after it, the server is known to sync each write, or the operator has said not to care."""

    def __init__(self, settings: NatsSettings) -> None:
        self._settings = settings
        self._passed_once = False

    async def __call__(self, client: Client) -> None:
        """Raises StartRefused when the server does not sync, or at first when nobody can tell."""
        if self._settings.allow_unsafe_sync:
            log.warning("bus_sync_unchecked", why="nats.allow_unsafe_sync is set")
            return
        assert (
            self._settings.monitor_url is not None
        )  # the settings refuse this without allow_unsafe_sync
        url = self._settings.monitor_url.rstrip("/") + "/jsz?config=1"
        always, why = await _ask(url)
        if always:
            self._passed_once = True
            return
        if always is None and self._passed_once:
            log.warning("bus_sync_unknown", error=why)
            return
        raise StartRefused(_refusal(url, why))


def _refusal(url: str, why: str) -> str:
    return (
        f"the NATS server may lose acknowledged messages in a power cut: {why} (asked {url}).\n"
        "Devices delete what the server has acknowledged and the hub has stored; by default the server "
        "syncs its files only every two minutes.\n"
        "Put `sync_interval: always` into its jetstream {} block and restart it, or correct "
        "[nats] monitor_url, or accept the loss with [nats] allow_unsafe_sync = true."
    )


async def _ask(url: str) -> tuple[bool | None, str]:
    """Whether every write is synced; None when the server does not say, with the reason."""
    why = ""
    async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as http:
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(PAUSE_S)
            try:
                answer = await http.get(url)
                answer.raise_for_status()
                config = answer.json().get("config", {})
            except (httpx.HTTPError, ValueError, AttributeError) as error:
                why = f"its monitoring does not answer: {str(error) or type(error).__name__}"
                continue
            if config.get("sync_always") is True:
                return True, ""
            return False, "`sync_interval` is not `always`"
    return None, why
