"""Loopback ports that stay free until they are used, also next to other processes of ours."""

from __future__ import annotations

import socket
from collections import OrderedDict
from pathlib import Path
from secrets import randbelow

HOST = "127.0.0.1"
_LOWEST = 20_000
_TRIES = 200
_MAX_CLAIMS = 200
# A UDP socket bound to the same number is the claim: it does not disturb a TCP listener, every
# other process that asks sees it, and it vanishes with this process however that ends.
_claims: OrderedDict[int, socket.socket] = OrderedDict()


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody else gets from here while this process lives.

    Taken below the kernel's ephemeral range, so that an outgoing connection cannot sit on it
    while its server is down. Of more than 200 claims the oldest is given up.
    """
    highest = _ephemeral_start()
    for _ in range(_TRIES):
        port = _LOWEST + randbelow(highest - _LOWEST)
        claim = _claim(port)
        if claim is not None:
            _claims[port] = claim
            while len(_claims) > _MAX_CLAIMS:
                _claims.popitem(last=False)[1].close()
            return port
    raise OSError(f"no free port on {HOST} between {_LOWEST} and {highest} in {_TRIES} tries")


def release_port(port: int) -> None:
    """Gives a claim back; unknown ports are ignored."""
    claim = _claims.pop(port, None)
    if claim is not None:
        claim.close()


def _claim(port: int) -> socket.socket | None:
    claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        claim.bind((HOST, port))
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((HOST, port))
    except OSError:
        claim.close()
        return None
    return claim


def _ephemeral_start() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    except OSError:
        return 32_768
    return max(int(text.split()[0]), _LOWEST + 5_000)
