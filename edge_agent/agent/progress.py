"""Whether the agent makes progress, and what stands still when it does not.

Slow is not stuck, and neither is a fault that has a name: with a broken disk inference goes on, and a
restart would mend nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from contract.status import Lane
from edge_agent.errors import StoreError
from edge_agent.types import OutboxState, StoredRow

STUCK_S = 60.0
"""A batch undecided, or an outbox silent, for longer means that the agent makes no progress."""
PROBE_EVERY_S = 5.0
_BEYOND = 2**53
"""No row has this number: asking for what comes after it only asks whether somebody answers."""


class Probed(Protocol):
    """What the probe needs of the outbox."""

    async def read(
        self, lane: Lane, *, after: int, max_bytes: int, max_rows: int
    ) -> Sequence[StoredRow]:
        """The next rows of a lane."""

    def state(self) -> OutboxState:
        """The outbox now, from memory."""


class Progress:
    """Knows when the outbox last answered, and which tasks must live.

    `probe` belongs in the agent's TaskGroup; `stuck` is cheap and may be called at any time.
    """

    def __init__(self, outbox: Probed, *, undecided_s: Callable[[], float]) -> None:
        """The outbox has just answered: it was opened."""
        self._outbox = outbox
        self._undecided_s = undecided_s
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._loop = asyncio.get_running_loop()
        self._answered_s = self._loop.time()

    def must_live(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """These tasks end only when the agent does."""
        self._tasks = tuple(tasks)

    def stuck(self) -> str:
        """What stands still, as a sentence; "" while all goes on."""
        for task in self._tasks:
            if task.done():
                return f"the task {task.get_name()} has ended"
        if self._outbox.state().fault:
            self._answered_s = self._loop.time()  # it says what is wrong with it
            return ""
        undecided_s = self._undecided_s()
        if undecided_s > STUCK_S:
            return f"a batch of messages is undecided for {undecided_s:.0f} s"
        silent_s = self._loop.time() - self._answered_s
        if silent_s > STUCK_S:
            return f"the outbox has not answered for {silent_s:.0f} s"
        return ""

    async def probe(self) -> None:
        """Asks the outbox, for ever, whether it answers."""
        while True:
            try:
                await self._outbox.read(Lane.EVT, after=_BEYOND, max_bytes=1, max_rows=1)
            except StoreError:
                pass  # too much waits for it: then this waits no longer than the rest
            else:
                self._answered_s = self._loop.time()
            await asyncio.sleep(PROBE_EVERY_S)
