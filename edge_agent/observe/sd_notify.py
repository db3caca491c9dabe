"""Tells systemd how the service is; a no-op where no supervisor listens."""

from __future__ import annotations

import socket
from contextlib import suppress


class Supervisor:
    """Sends to the socket named in NOTIFY_SOCKET (`address`); never blocks and never raises."""

    def __init__(self, address: str | None) -> None:
        self._address = "\0" + address[1:] if address and address.startswith("@") else address

    def ready(self) -> None:
        """The service has started."""
        self._send(b"READY=1")

    def alive(self) -> None:
        """The service makes progress; to be sent at least twice per WatchdogSec."""
        self._send(b"WATCHDOG=1")

    def stopping(self) -> None:
        """The service drains."""
        self._send(b"STOPPING=1")

    def _send(self, state: bytes) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0)
            sock.connect(self._address)
            sock.send(state)
