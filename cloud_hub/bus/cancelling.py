"""Makes up for a client library that swallows cancellation: nats-py does, wherever it flushes."""

from __future__ import annotations

import asyncio


def honour_cancellation() -> None:
    """Raises CancelledError if the current task was cancelled; to be called after each call of the library.

    Without it a task that was cancelled while it published would go on, and its TaskGroup would never end.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
