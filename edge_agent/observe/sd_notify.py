"""Tells systemd how the service is; a no-op where no supervisor listens."""

from __future__ import annotations

import socket
from contextlib import suppress

_MAX_STATUS = 400


class Supervisor:
    """Sends to the socket named in NOTIFY_SOCKET (`address`); never blocks and never raises."""

    def __init__(self, address: str | None) -> None:
        self._address = "\0" + address[1:] if address and address.startswith("@") else address

    def ready(self) -> None:
        """The service has started."""
        self._send("READY=1")

    def alive(self) -> None:
        """The service makes progress; to be sent at least twice per WatchdogSec."""
        self._send("WATCHDOG=1")

    def starting(self, doing: str, *, most_s: float) -> None:
        """The start goes on: what it does now, and how long that may take before it is given up."""
        self._send(f"EXTEND_TIMEOUT_USEC={round(most_s * 1e6)}\nSTATUS={_one_line(doing)}")

    def status(self, sentence: str) -> None:
        """One sentence for `systemctl status`."""
        self._send(f"STATUS={_one_line(sentence)}")

    def stopping(self) -> None:
        """The service drains."""
        self._send("STOPPING=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0)
            sock.connect(self._address)
            sock.send(state.encode("utf-8", "replace"))


def _one_line(text: str) -> str:
    """A line break in a reason must not become another message to systemd."""
    return " ".join(text.split())[:_MAX_STATUS]
