"""Live data goes first: while the event loop is late, the drain of the backlog waits. Pure.

Reading, packing and sending a backlog take the processor from the verdicts of the same process, and the
hub's work on it takes it too where both share a machine. How late the loop wakes a sleeper shows all of it.
"""

from __future__ import annotations

from typing import Final

TOLERATED_S: Final = 0.025
"""Verdicts are allowed far more; a drain on a free machine stays below it."""
_TIMES: Final = 2.0
_MOST_S: Final = 0.04
"""Twenty-five messages a second go in any case: full ones hold 50,000 readings even in small rows."""
_FADES: Final = 0.8


class Yielding:
    """Takes measurements of lateness; tells when the next message of a backlog may go.

    One late wake-up counts at once and fades with the next ones. However late the loop is, messages
    go 25 times a second.
    """

    def __init__(self) -> None:
        self.free_at_s = 0.0
        self._late_s = 0.0

    def note(self, late_s: float, *, now_s: float) -> None:
        """The loop woke a sleeper so much too late."""
        self._late_s = max(late_s, _FADES * self._late_s)
        if self._late_s > TOLERATED_S and now_s >= self.free_at_s:
            self.free_at_s = now_s + min(_MOST_S, _TIMES * self._late_s)
