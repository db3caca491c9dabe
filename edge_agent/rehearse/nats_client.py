"""A small NATS client for the stand-in hub: connects again for ever, and has no state worth keeping."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

from edge_agent.rehearse.nats_frames import (
    BadFrame,
    Frame,
    FrameReader,
    header_block,
    message_frame,
)
from edge_agent.rehearse.ports import HOST

_PAUSE_S: Final = 0.1
_GREETING_S: Final = 5.0
_PING_S: Final = 2.0
_SILENCE_S: Final = 6.0

Handler = Callable[[Frame], None]
"""Takes one message; must not block."""


class Lost(Exception):
    """There is no connection, or it ended before the answer came."""


class TinyClient:
    """One connection to one server on loopback; `run` keeps it up.

    A message's frame has as arguments its subject, the subscription, and where to reply, if anywhere.
    """

    def __init__(self, port: int) -> None:
        self.connected = asyncio.Event()
        self._port = port
        self._handlers: dict[str, tuple[str, str, Handler]] = {}
        self._waiting: dict[str, asyncio.Future[Frame]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._numbers = count(1)
        self.inbox = "_INBOX.rehearsal"
        self.subscribe(f"{self.inbox}.*", self._replied)

    def subscribe(self, subject: str, handler: Handler, *, queue: str = "") -> None:
        """Hands every message of a subject to `handler`, over all connections to come."""
        self._handlers[str(len(self._handlers) + 1)] = (subject, queue, handler)

    def publish(
        self,
        subject: str,
        body: bytes,
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Sends one message; raises Lost without a connection."""
        if self._writer is None:
            raise Lost(subject)
        block = header_block(headers) if headers else b""
        self._writer.write(message_frame("PUB", (subject, reply), body, block))

    async def request(self, subject: str, body: Any, *, timeout_s: float = 5.0) -> Frame:
        """The first answer to a request whose body is JSON; raises Lost, also when nothing comes in time."""
        token = f"{self.inbox}.{next(self._numbers)}"
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            self.publish(subject, json.dumps(body).encode() if body else b"", reply=token)
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            raise Lost(f"{subject}: no answer in {timeout_s:g} s") from None
        finally:
            del self._waiting[token]

    async def run(self) -> None:
        """Keeps the connection until cancelled."""
        while True:
            with suppress(OSError, BadFrame, TimeoutError):
                async with asyncio.timeout(_GREETING_S):
                    reader, writer = await asyncio.open_connection(HOST, self._port)
                try:
                    await self._serve(reader, writer)
                finally:
                    self._writer = None
                    self.connected.clear()
                    for future in self._waiting.values():
                        if not future.done():
                            future.set_exception(Lost("the connection ended"))
                    writer.transport.abort()
            await asyncio.sleep(_PAUSE_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        writer.write(b"CONNECT " + json.dumps({**options, "lang": "python"}).encode() + b"\r\n")
        for sid, (subject, queue, _) in self._handlers.items():
            writer.write(" ".join(filter(None, ("SUB", subject, queue, sid))).encode() + b"\r\n")
        writer.write(b"PING\r\n")
        frames = FrameReader()
        silent_s = 0.0
        while True:
            try:
                async with asyncio.timeout(_PING_S):
                    data = await reader.read(256 * 1024)
            except TimeoutError:
                silent_s += _PING_S
                if silent_s > _SILENCE_S:
                    return  # the server is frozen, or gone without a word
                writer.write(b"PING\r\n")
                continue
            if not data:
                return
            silent_s = 0.0
            for frame in frames.feed(data):
                self._handle(frame, writer)
            await writer.drain()

    def _handle(self, frame: Frame, writer: asyncio.StreamWriter) -> None:
        if frame.op == "MSG":
            handler = self._handlers.get(frame.args[1])
            if handler is not None:
                handler[2](frame)
        elif frame.op == "PING":
            writer.write(b"PONG\r\n")
        elif frame.op == "PONG" and self._writer is None:
            self._writer = writer  # the server has read our subscriptions
            self.connected.set()

    def _replied(self, frame: Frame) -> None:
        future = self._waiting.get(frame.args[0])
        if future is not None and not future.done():
            future.set_result(frame)
