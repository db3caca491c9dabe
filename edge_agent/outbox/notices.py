"""Log lines that a fault could repeat without end: at most one of a kind in a minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger

EVERY_S: Final = 60.0
_log = get_logger()


class Notices:
    """Says the first of a kind at once, and with the next how many were left out."""

    def __init__(self, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._said_s: dict[Event, float] = {}
        self._left_out: dict[Event, int] = {}

    def warn(self, event: Event, **facts: Any) -> bool:
        """Says it as a warning, unless it was said just now; whether it was said."""
        return self._say(_log.warning, event, facts)

    def error(self, event: Event, **facts: Any) -> bool:
        """Says it as an error, unless it was said just now; whether it was said."""
        return self._say(_log.error, event, facts)

    def _say(self, say: Callable[..., Any], event: Event, facts: dict[str, Any]) -> bool:
        now_s = self._now_s()
        if now_s - self._said_s.get(event, -EVERY_S) < EVERY_S:
            self._left_out[event] = self._left_out.get(event, 0) + 1
            return False
        self._said_s[event] = now_s
        left_out = self._left_out.pop(event, 0)
        say(event, **facts, **({"left_out": left_out} if left_out else {}))
        return True
