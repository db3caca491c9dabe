"""Opens the socket to a broker without ever blocking the event loop."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import threading
from typing import Final

from edge_agent.broker.options import BrokerOptions
from edge_agent.errors import EdgeError

_NOTHING_TO_SPARE: Final = {errno.EMFILE, errno.ENFILE}


class BrokerAway(EdgeError):
    """No connection could be made; the text says why. Try again later."""


class NothingToSpare(BrokerAway):
    """This machine has no descriptor or thread left for it; the broker has no part in it. Soon again."""


def dial(options: BrokerOptions) -> asyncio.Future[socket.socket]:
    """A future of a connected, non-blocking socket; it fails only with BrokerAway.

    Name look-up, TCP and TLS run in a daemon thread of their own, so that a name server that hangs
    delays neither the loop nor the end of the process. Cancelling the future is safe: a socket
    that comes too late is closed.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[socket.socket] = loop.create_future()

    def settle(result: socket.socket | BrokerAway) -> None:
        if isinstance(result, BrokerAway):
            if not future.done():
                future.set_exception(result)
        elif future.done():
            result.close()
        else:
            future.set_result(result)

    def work() -> None:
        result: socket.socket | BrokerAway
        try:
            result = _open(options)
        except (OSError, ValueError) as error:  # ssl's errors are one or the other
            lacking = getattr(error, "errno", None) in _NOTHING_TO_SPARE
            kind = NothingToSpare if lacking else BrokerAway
            result = kind(f"{type(error).__name__}: {error}")
        try:
            loop.call_soon_threadsafe(settle, result)
        except RuntimeError:  # the loop ended meanwhile
            if not isinstance(result, BrokerAway):
                result.close()

    try:
        threading.Thread(target=work, name=f"dial {options.name}", daemon=True).start()
    except RuntimeError as error:  # the machine has no thread left to give
        future.set_exception(NothingToSpare(str(error)))
    return future


def _open(options: BrokerOptions) -> socket.socket:
    timeout_s = options.connect_timeout_s
    raw = socket.create_connection((options.host, options.port), timeout=timeout_s)
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock = _secured(raw, options) if options.tls else raw
        sock.settimeout(0)
    except BaseException:
        raw.close()
        raise
    return sock


def _secured(raw: socket.socket, options: BrokerOptions) -> socket.socket:
    context = ssl.create_default_context(cafile=options.tls_ca)
    if options.tls_cert is not None:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    return context.wrap_socket(raw, server_hostname=options.host)
