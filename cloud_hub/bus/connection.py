"""A connection that is always being kept up: one client at a time, probed, thrown away when in doubt.

States, as `state()` names them:

    connecting   no client; attempts go on for ever, with full jitter
    preparing    a client is connected; the server is checked, streams and subscriptions are made
    ready        everything of the above exists, and the last probe came back
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from math import ceil
from typing import Final

import structlog
from nats.aio.client import Client

from cloud_hub.bus.cancelling import honour_cancellation
from cloud_hub.bus.dial import NATS_ERRORS, as_bus_error, dial
from cloud_hub.errors import BusDown, BusError
from cloud_hub.metrics import HubMetrics
from cloud_hub.settings import NatsSettings

PROBE_EVERY_S: Final = 10.0
PROBE_LIMIT_S: Final = 5.0
PREPARE_LIMIT_S: Final = 30.0
CLOSE_LIMIT_S: Final = 2.0
BACKOFF_START_S: Final = 0.5
BACKOFF_CAP_S: Final = 5.0
"""Lower than a device's: a hub is one or a few, not a herd."""

log = structlog.get_logger()

Preparation = Callable[[Client], Awaitable[None]]
"""Makes what a new client needs; raises BusError to have another try, StartRefused to end the hub."""


class BusState(StrEnum):
    """How far the connection is."""

    CONNECTING = "connecting"
    PREPARING = "preparing"
    READY = "ready"


class Connection:
    """Keeps a client connected while `run` runs; never blocks the start of anything else."""

    def __init__(
        self,
        settings: NatsSettings,
        *,
        metrics: HubMetrics,
        preparations: Sequence[Preparation] = (),
        on_ready: Callable[[], Awaitable[None]] | None = None,
        name: str = "cloud-hub",
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._preparations = preparations
        self._on_ready = on_ready
        self._name = name
        self._client: Client | None = None
        self._state = BusState.CONNECTING
        self._ready = asyncio.Event()
        self._lost = asyncio.Event()
        self._on_lost: list[Callable[[], None]] = []

    def when_lost(self, call: Callable[[], None]) -> None:
        """Calls this each time a prepared client is gone: its answers will never come."""
        self._on_lost.append(call)

    def state(self) -> BusState:
        """How far the connection is now."""
        return self._state

    async def client(self, *, wait_s: float) -> Client:
        """The prepared client; waits for one, at most `wait_s`, then raises BusDown."""
        try:
            async with asyncio.timeout(wait_s):
                await self._ready.wait()
        except TimeoutError:
            raise BusDown("there is no connection to NATS") from None
        return self.client_now()

    def client_now(self) -> Client:
        """The prepared client; raises BusDown when there is none."""
        if self._client is None or not self._ready.is_set():
            raise BusDown("there is no connection to NATS")
        return self._client

    def renew(self, why: str) -> None:
        """Throws the client away and prepares a new one: what was prepared is gone although it is connected."""
        if self._ready.is_set() and not self._lost.is_set():
            log.warning("bus_renewed", why=why)
            self._lost.set()

    async def run(self) -> None:
        """Connects, again and again, until cancelled; raises only StartRefused and ConfigurationError."""
        failures = 0
        while True:
            try:
                await self._one_life()
                failures = 0
                delay_s = random.uniform(0, self._settings.reconnect_jitter_s)  # noqa: S311 - spreads, hides nothing
            except BusError as error:
                log.warning("bus_connect_failed", error=str(error))
                ceiling_s = min(BACKOFF_CAP_S, BACKOFF_START_S * 2 ** min(failures, 10))
                failures += 1
                delay_s = random.uniform(0, ceiling_s)  # noqa: S311
            await asyncio.sleep(delay_s)

    async def _one_life(self) -> None:
        """From one connection to its loss; raises BusError when it never became ready."""
        lost = self._lost = asyncio.Event()

        async def on_closed() -> None:
            lost.set()

        client = await dial(
            self._settings,
            name=self._name,
            inbox_prefix="_INBOX_hub",
            on_closed=on_closed,
            on_error=self._on_error,
        )
        try:
            honour_cancellation()
            self._state = BusState.PREPARING
            await self._prepare(client)
            self._client, self._state = client, BusState.READY
            self._ready.set()
            self._metrics.connects.inc()
            log.info("bus_ready", server=_server_of(client))
            if self._on_ready is not None:
                await self._on_ready()
            await _probe_until_lost(client, lost)
            log.warning("bus_lost", server=self._settings.shown_urls)
        finally:
            self._ready.clear()
            self._client, self._state = None, BusState.CONNECTING
            for call in self._on_lost:
                call()
            await _close(client)

    async def _prepare(self, client: Client) -> None:
        try:
            async with asyncio.timeout(PREPARE_LIMIT_S):
                for preparation in self._preparations:
                    await preparation(client)
                    honour_cancellation()
                await client.rtt(timeout=ceil(PROBE_LIMIT_S))
                honour_cancellation()
        except NATS_ERRORS as error:
            raise as_bus_error(error, "cannot prepare the connection") from error

    async def _on_error(self, error: Exception) -> None:
        log.warning("bus_error", key=type(error).__name__, error=str(error) or type(error).__name__)


async def _probe_until_lost(client: Client, lost: asyncio.Event) -> None:
    """Returns when the client is closed, or two probes in a row got no answer (a zombie).

    `rtt` and not `flush`: with a dead read loop, which is what makes a zombie, the client's flush succeeds.
    """
    failed = False
    while not lost.is_set():
        if not failed:
            await _wait(lost, PROBE_EVERY_S)
        try:
            async with asyncio.timeout(PROBE_LIMIT_S):
                await client.rtt(timeout=ceil(PROBE_LIMIT_S))
                honour_cancellation()
        except NATS_ERRORS as error:
            if failed or lost.is_set():
                return
            log.warning("bus_probe_failed", error=str(error) or type(error).__name__)
            failed = True
        else:
            failed = False


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


async def _close(client: Client) -> None:
    try:
        async with asyncio.timeout(CLOSE_LIMIT_S):
            await client.close()
    except NATS_ERRORS as error:
        log.info("bus_close_failed", error=str(error) or type(error).__name__)


def _server_of(client: Client) -> str:
    url = client.connected_url
    return "" if url is None else url.netloc.rpartition("@")[2]
