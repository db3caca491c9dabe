"""Feeds systemd's watchdog with progress: a ping says that work gets done, not that a timer runs.

The pings come from the event loop itself, so a loop that is held up sends none. A batch or an outbox
that stands still ends them too; systemd then kills the process and starts it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.observe.sd_notify import Supervisor

_LOOK_S = 1.0
_PINGS_PER_LIMIT = 3


class Watchdog:
    """Pings at least twice in `limit_s` while `stuck` says nothing; tells `sentence` when it changes."""

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        limit_s: float,
        stuck: Callable[[], str],
        sentence: Callable[[], str],
    ) -> None:
        """`limit_s` is systemd's WatchdogSec; 0 where nobody watches."""
        self._supervisor = supervisor
        self._watched = limit_s > 0
        self._interval_s = min(_LOOK_S, limit_s / _PINGS_PER_LIMIT) if self._watched else _LOOK_S
        self._stuck = stuck
        self._sentence = sentence
        self._told = ""
        self._log = get_logger()

    async def run(self) -> None:
        """Looks for ever."""
        while True:
            self.look()
            await asyncio.sleep(self._interval_s)

    def look(self) -> None:
        """One look: a ping where there is progress, and the sentence where it is a new one."""
        why = self._stuck()
        if why:
            self._log.error(Event.AGENT_STUCK, why=why)
        elif self._watched:
            self._supervisor.alive()
        sentence = f"stuck: {why}" if why else self._sentence()
        if sentence != self._told:
            self._told = sentence
            self._supervisor.status(sentence)
