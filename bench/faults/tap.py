"""Listens to what devices publish, so that messages that went twice can be counted."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import nats
from nats.aio.msg import Msg

from bench.servers import NatsServer
from contract.subjects import MSG_ID, ROOT


@dataclass(slots=True)
class Tap:
    """Published messages with rows: how many, and how many held rows that had gone before."""

    messages: int = 0
    again: int = 0
    rows: int = 0
    rows_again: int = 0
    _seen: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    async def note(self, message: Msg) -> None:
        """Counts one message by the range in its id, `device:epoch:lane:first-last[:repair]`."""
        identity = (message.headers or {}).get(MSG_ID)
        if identity is None:
            return
        device, epoch, lane_name, numbers, *_ = identity.split(":")
        lane = f"{device}:{epoch}:{lane_name}"
        first, _, last = numbers.partition("-")
        rows = set(range(int(first), int(last) + 1))
        known = rows & self._seen[lane]
        self._seen[lane] |= rows
        self.messages += 1
        self.again += bool(known)
        self.rows += len(rows)
        self.rows_again += len(known)
        self._came.set()

    async def next_message(self, *, timeout_s: float) -> None:
        """Returns once a device publishes; raises TimeoutError."""
        self._came.clear()
        async with asyncio.timeout(timeout_s):
            await self._came.wait()


@asynccontextmanager
async def tap(server: NatsServer) -> AsyncIterator[Tap]:
    """Counts from now on; the server must run for as long as the block."""
    client = await nats.connect(server.url, allow_reconnect=False)
    try:
        listening = Tap()
        await client.subscribe(f"{ROOT}.*.tel", cb=listening.note)
        await client.flush()
        yield listening
    finally:
        await client.close()
