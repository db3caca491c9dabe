"""What can be seen of a broker session."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One broker session at a glance; counts are since the start."""

    name: str
    url: str
    connected: bool
    why: str
    """Why it is not connected, or ""."""
    since_s: float
    """Seconds in the present state."""
    connections: int
    received: int
    acknowledged: int
    stale_acknowledgements: int
    published: int
    dropped: int
    waiting: int
    waiting_bytes: int
    paused: bool
    refused_filters: tuple[str, ...]
