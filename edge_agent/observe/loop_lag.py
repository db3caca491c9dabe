"""Notices when the event loop is held up: the one thing that no task inside it can miss."""

from __future__ import annotations

import asyncio

from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.observe.metrics import Counters

_STALL_MS = 500.0


async def watch_loop_lag(counters: Counters, *, interval_s: float = 0.5) -> None:
    """Measures, for ever, how late the loop wakes a sleeper; logs what is above half a second."""
    loop = asyncio.get_running_loop()
    log = get_logger()
    while True:
        due_s = loop.time() + interval_s
        await asyncio.sleep(interval_s)
        lag_ms = max(0.0, (loop.time() - due_s) * 1e3)
        counters.loop_lag.add(lag_ms)
        if lag_ms > _STALL_MS:
            log.warning(Event.LOOP_STALLED, lag_ms=round(lag_ms))
