"""`/livez`, `/readyz` and `/metrics` on loopback, on the event loop, bounded in every direction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

import msgspec

from edge_agent.errors import ConfigurationError
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.types import JsonObject

Check = Callable[[], tuple[bool, JsonObject]]
"""Whether all is well, and the reasons."""
Metrics = Callable[[str], tuple[bytes, str]]
"""From the request's Accept header: the exposition and its content type."""

_MAX_HEAD_BYTES = 8192
_MAX_CONNECTIONS = 16
_CLIENT_TIMEOUT_S = 5.0
_JSON = "application/json"


class HealthServer:
    """Answers GET and HEAD, one request a connection.

    At most 16 connections at a time; a client that is slower than five seconds is cut. The checks
    and the metrics are called on the event loop and must not block.
    """

    def __init__(
        self, *, host: str, port: int, live: Check, ready: Check, metrics: Metrics
    ) -> None:
        self._host = host
        self._port = port
        self._checks = {"/livez": live, "/readyz": ready}
        self._metrics = metrics
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """Where it listens; the port is the real one, also when 0 was asked for."""
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listens from now on; raises ConfigurationError where the address cannot be had."""
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, self._port, limit=_MAX_HEAD_BYTES
            )
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"http.host/http.port: cannot listen on {self._host}:{self._port}: {error}. "
                "Choose another port, 0 for any free one, or http.enabled = false"
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]
        get_logger().info(Event.HTTP_LISTENING, url=self.url)

    async def close(self) -> None:
        """Stops listening and cuts what is still open."""
        if self._server is not None:
            self._server.close()
            for writer in list(self._connections):
                writer.transport.abort()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._connections.add(writer)
        try:
            async with asyncio.timeout(_CLIENT_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self.answer(head))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except asyncio.LimitOverrunError:
            with suppress(OSError):
                writer.write(_response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"", _JSON))
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # a client that is slow or has gone gets nothing
        finally:
            self._connections.discard(writer)
            if not writer.transport.is_closing():
                writer.transport.abort()

    def answer(self, head: bytes) -> bytes:
        """The whole response to a request's head (pure but for the checks)."""
        lines = head.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST, b"", _JSON)
        method, path = parts[0], parts[1].partition("?")[0]
        if method not in {"GET", "HEAD"}:
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, b"", _JSON)
        if path == "/metrics":
            body, content_type = self._metrics(_header(lines, "accept"))
            return _response(HTTPStatus.OK, body, content_type, head_only=method == "HEAD")
        check = self._checks.get(path)
        if check is None:
            body = msgspec.json.encode({"paths": [*self._checks, "/metrics"]})
            return _response(HTTPStatus.NOT_FOUND, body, _JSON, head_only=method == "HEAD")
        well, reasons = check()
        body = msgspec.json.encode({"ok": well, **reasons}, enc_hook=str)
        status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
        return _response(status, body, _JSON, head_only=method == "HEAD")


def _header(lines: list[str], name: str) -> str:
    for line in lines[1:]:
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _response(
    status: HTTPStatus, body: bytes, content_type: str, *, head_only: bool = False
) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (b"" if head_only else body)
