"""Tries the hub once, for `edge-agent check`."""

from __future__ import annotations

import asyncio

from edge_agent.link.connection import Link
from edge_agent.settings import HubSettings
from edge_agent.types import Clock


async def probe_hub(
    settings: HubSettings, *, device: str, clock: Clock, timeout_s: float
) -> str | None:
    """Why the hub's server cannot be reached within `timeout_s`; None when it can."""
    link = Link(settings.model_copy(update={"reconnect_jitter_s": 0.0}), device=device, clock=clock)
    changed = asyncio.Event()
    link.on_change = changed.set
    task = asyncio.create_task(link.run(), name="check-hub")
    try:
        async with asyncio.timeout(timeout_s):
            while not link.state().connection:
                changed.clear()
                await changed.wait()
    except TimeoutError:
        return link.state().why or f"no answer within {timeout_s:g} s"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return None
