"""A service manager for journeys: hears what the agent tells systemd, and starts it again when it ends."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple


class Said(NamedTuple):
    """A line to systemd, and when it was heard (monotonic)."""

    at_s: float
    line: str


class Notified:
    """Hears every datagram of NOTIFY_SOCKET, line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said: list[Said] = []

    def hear(self, datagram: bytes) -> None:
        now_s = time.monotonic()
        self.said += [Said(now_s, line) for line in datagram.decode().splitlines()]

    def environment(self, watchdog_s: float) -> dict[str, str]:
        """What systemd would set for a unit with this WatchdogSec."""
        return {"NOTIFY_SOCKET": str(self.path), "WATCHDOG_USEC": str(round(watchdog_s * 1e6))}

    def lines(self) -> list[str]:
        return [each.line for each in self.said]

    def pings(self, *, since_s: float = 0.0) -> list[float]:
        """When the watchdog was fed."""
        return [at_s for at_s, line in self.said if line == "WATCHDOG=1" and at_s >= since_s]

    def status(self) -> str:
        """The latest sentence of `systemctl status`."""
        lines = [line for line in self.lines() if line.startswith("STATUS=")]
        return lines[-1].removeprefix("STATUS=") if lines else ""


class _Listener(asyncio.DatagramProtocol):
    def __init__(self, into: Notified) -> None:
        self._into = into

    def datagram_received(self, data: bytes, _address: object) -> None:
        self._into.hear(data)


@asynccontextmanager
async def notified(folder: Path) -> AsyncIterator[Notified]:
    """A notification socket in this folder."""
    into = Notified(folder / "notify")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.bind(str(into.path))
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Listener(into), sock=sock)
    try:
        yield into
    finally:
        transport.close()
