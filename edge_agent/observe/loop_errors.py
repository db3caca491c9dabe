"""Errors that reach nobody but the event loop: one line a minute and kind, in place of a traceback each.

A listening socket without a descriptor left is such an error: Python's loop tells of it a hundred times a
second, with a traceback each time, on a device that is in trouble already.
"""

from __future__ import annotations

import asyncio
from typing import Any

from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger


def tell_loop_errors(loop: asyncio.AbstractEventLoop) -> None:
    """From now on what the loop has to tell becomes an event of the log."""
    log = get_logger()

    def tell(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        why = "" if error is None else f"{type(error).__name__}: {error}"
        log.error(Event.LOOP_ERROR, fault=context.get("message", ""), error=why)

    loop.set_exception_handler(tell)
