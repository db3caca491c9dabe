"""One NATS client from connect to its end. Never reused: a lost one is thrown away.

The client's own reconnect is off, since it has no jitter, gives up, and cannot tell a dead read loop.
"""

from __future__ import annotations

import asyncio
import errno
import re
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

from nats.aio.client import Client, RawCredentials
from nats.aio.msg import Msg
from nats.aio.transport import TcpTransport

from contract.subjects import inbox_prefix
from edge_agent.errors import LinkDown, LinkError, NothingToSpare
from edge_agent.link.translation import translated
from edge_agent.settings import HubSettings

CONNECT_S: Final = 5.0
_CLOSE_S: Final = 1.0
_PENDING_BYTES: Final = 2 * 1024 * 1024
_NOTHING_TO_SPARE: Final = {errno.EMFILE, errno.ENFILE}
_FORBIDDEN = re.compile(r"permissions violation for publish to \"([^\"]+)\"", re.IGNORECASE)


class NatsClient:
    """A connected client: `lost` is set when its connection ends, whatever the reason."""

    def __init__(self, client: Client, *, inbox: str) -> None:
        self.lost = asyncio.Event()
        self.inbox = inbox
        self._client = client

    @classmethod
    async def connect(
        cls,
        settings: HubSettings,
        *,
        device: str,
        on_reply: Callable[[str, Msg], None],
        on_forbidden: Callable[[str], None],
        subscriptions: dict[str, Callable[[], None]],
    ) -> NatsClient:
        """Connects to one of the servers and subscribes, or raises LinkError within a few seconds.

        `on_reply` gets the last token of the reply subject and the message; `on_forbidden` the subject of
        a publish that the server does not allow.
        """
        client = Client()
        self = cls(client, inbox="")

        async def lost() -> None:
            self.lost.set()

        lacking = False

        async def failed(error: Exception) -> None:
            nonlocal lacking
            lacking |= isinstance(error, OSError) and error.errno in _NOTHING_TO_SPARE
            found = _FORBIDDEN.search(str(error))
            if found is not None:
                on_forbidden(found.group(1))

        async def replied(message: Msg) -> None:
            on_reply(message.subject.rsplit(".", 1)[-1], message)

        try:
            with translated(f"cannot connect to {', '.join(map(without_password, settings.urls))}"):
                async with asyncio.timeout(CONNECT_S * max(1, len(settings.urls))):
                    await _open(client, settings, device=device, lost=lost, failed=failed)
                    self.inbox = client.new_inbox()
                    await client.subscribe(f"{self.inbox}.*", cb=replied)
                    for subject, callback in subscriptions.items():
                        await client.subscribe(subject, cb=_ignoring_content(callback))
        except BaseException as error:
            await self.discard()
            if lacking and isinstance(error, LinkError):
                raise NothingToSpare(f"{error}: no descriptor is left") from error
            raise
        return self

    async def publish(
        self, subject: str, body: bytes, *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Hands a message to the socket; raises LinkError, LinkDown also when the server takes nothing."""
        if self._client.pending_data_size > _PENDING_BYTES:
            raise LinkDown("the server does not take what is sent to it")
        with translated(f"publish to {subject}"):
            await self._client.publish(subject, body, reply=reply, headers=headers)

    async def round_trip_s(self, *, timeout_s: float) -> float:
        """A ping to the server and back; raises LinkError. Unlike flush it needs the read loop alive."""
        with translated("probe"):
            async with asyncio.timeout(timeout_s):
                return float(await self._client.rtt(timeout=int(timeout_s) + 1))

    async def discard(self) -> None:
        """Ends the connection within a second, even when the server takes no byte any more."""
        transport = self._client._transport
        # In a task of its own: the client's close swallows the cancellation of whoever awaits it.
        closing = asyncio.create_task(self._client.close(), name="link close")
        try:
            await asyncio.wait({closing}, timeout=_CLOSE_S)
        finally:
            closing.cancel()
            closing.add_done_callback(_seen)
            if isinstance(transport, TcpTransport) and transport._io_writer is not None:
                transport._io_writer.transport.abort()
            self.lost.set()


def honour_cancel() -> None:
    """Raises the cancellation of this task that a library has swallowed, if there is one.

    `asyncio.wait_for` of Python 3.11, which the client uses, loses it when what it waits for ends at
    the same moment.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _seen(task: asyncio.Task[None]) -> None:
    """Takes notice of how a close ended: the client was thrown away, so it does not matter."""
    if not task.cancelled():
        task.exception()


def _ignoring_content(callback: Callable[[], None]) -> Callable[[Msg], Any]:
    async def called(message: Msg) -> None:
        del message  # carries no authority: it only says "ask now"
        callback()

    return called


async def _open(
    client: Client,
    settings: HubSettings,
    *,
    device: str,
    lost: Callable[[], Awaitable[None]],
    failed: Callable[[Exception], Awaitable[None]],
) -> None:
    """One attempt at each of the servers; the client never connects again by itself."""
    await client.connect(
        servers=list(settings.urls),
        closed_cb=lost,
        disconnected_cb=lost,
        error_cb=failed,
        name=f"edge-agent {device}",
        allow_reconnect=False,
        max_reconnect_attempts=1,
        reconnect_time_wait=0,
        connect_timeout=2,
        dont_randomize=True,
        ping_interval=10,
        max_outstanding_pings=2,
        pending_size=4 * _PENDING_BYTES,  # never reached: beyond it the client swallows cancels
        flush_timeout=2,
        inbox_prefix=inbox_prefix(device).encode(),
        **await _options(settings),
    )


async def _options(settings: HubSettings) -> dict[str, Any]:
    """The secrets of a connection; files are read off the loop; raises LinkError."""
    options: dict[str, Any] = {}
    if settings.user is not None:
        options["user"] = settings.user
    if settings.password is not None:
        options["password"] = settings.password.get_secret_value()
    if settings.token is not None:
        options["token"] = settings.token.get_secret_value()
    try:
        if settings.credentials is not None:
            text = await asyncio.to_thread(settings.credentials.read_text, encoding="utf-8")
            options["user_credentials"] = RawCredentials(text)
        if settings.tls_ca is not None:
            options["tls"] = await asyncio.to_thread(
                ssl.create_default_context, cafile=str(settings.tls_ca)
            )
    except (OSError, UnicodeDecodeError, ssl.SSLError) as error:
        raise LinkError(f"cannot use the credentials of [hub]: {error}") from error
    return options


def without_password(url: str) -> str:
    """A URL that may be logged."""
    return re.sub(r"//[^@/]*@", "//", url)
