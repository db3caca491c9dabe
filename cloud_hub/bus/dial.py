"""One attempt to connect, with the credentials and limits of the configuration; foreign errors end here."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError

from cloud_hub.errors import BusDown, BusError, BusTimeout, ConfigurationError
from cloud_hub.settings import NatsSettings, TlsSettings

CONNECT_TIMEOUT_S: Final = 5
PING_INTERVAL_S: Final = 10
MAX_OUTSTANDING_PINGS: Final = 2

NATS_ERRORS: Final = (NatsError, OSError, TimeoutError, EOFError)
"""What nats-py raises when a server is away, refuses, or stops talking."""


def as_bus_error(error: BaseException, doing: str) -> BusError:
    """The hub's own error for one of `NATS_ERRORS`."""
    text = f"{doing}: {str(error) or type(error).__name__}"
    return BusTimeout(text) if isinstance(error, TimeoutError) else BusDown(text)


async def dial(
    settings: NatsSettings,
    *,
    name: str,
    inbox_prefix: str,
    on_closed: Callable[[], Awaitable[None]],
    on_error: Callable[[Exception], Awaitable[None]],
) -> Client:
    """A connected client that does not reconnect by itself; raises BusError or ConfigurationError."""
    why: list[Exception] = []
    connected = False

    async def on_any_error(error: Exception) -> None:
        if connected:
            await on_error(error)
        else:
            why[:] = [error]

    options: dict[str, Any] = {
        "servers": settings.urls,
        "name": name,
        "allow_reconnect": False,
        "max_reconnect_attempts": 1,  # here: tries of each server before `connect` gives up
        "reconnect_time_wait": 0,
        "connect_timeout": CONNECT_TIMEOUT_S,
        "ping_interval": PING_INTERVAL_S,
        "max_outstanding_pings": MAX_OUTSTANDING_PINGS,
        "inbox_prefix": inbox_prefix,
        "closed_cb": on_closed,
        "error_cb": on_any_error,
    }
    if settings.credentials is not None:
        options["user_credentials"] = str(settings.credentials)
    if settings.user is not None:
        options["user"] = settings.user
        options["password"] = (
            "" if settings.password is None else settings.password.get_secret_value()
        )
    if settings.tls is not None:
        options["tls"] = await asyncio.to_thread(_tls_context, settings.tls)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S + 2):
            client = await nats.connect(**options)
    except NATS_ERRORS as error:
        cause = why[0] if why else error
        raise as_bus_error(cause, f"cannot connect to {settings.shown_urls}") from error
    connected = True
    return client


def _tls_context(tls: TlsSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if tls.ca is None else str(tls.ca))
        if tls.certificate is not None:
            key = None if tls.key is None else str(tls.key)
            context.load_cert_chain(str(tls.certificate), key)
    except OSError as error:
        raise ConfigurationError(f"[nats.tls] the certificates cannot be used: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
