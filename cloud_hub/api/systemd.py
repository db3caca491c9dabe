"""Tells systemd what the hub is doing, where systemd asked."""

from __future__ import annotations

import asyncio
import socket

from cloud_hub.settings import notify_socket


async def notify(message: str) -> None:
    """Sends one message to the notification socket; without one, or when it fails, nothing happens."""
    address = notify_socket()
    if address is not None:
        await asyncio.to_thread(_send, address, message.encode())


def _send(address: str, message: bytes) -> None:
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(1)
            sender.sendto(message, address)
    except OSError:
        return
