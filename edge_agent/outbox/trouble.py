"""What stops the outbox at present, and since when it may be told.

A disk that is slow is no trouble: it answers, and who commits waits for it. Trouble is a disk that
refuses, or one that has not answered for so long that nobody should wait for it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from edge_agent.errors import StoreError
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.outbox.notices import Notices

_log = get_logger()
RETRY_S: Final = (0.05, 0.2, 0.5, 1.0, 2.0)
FULL_RETRY_S: Final = 0.5
STUCK_S: Final = 10.0
"""A disk that takes longer to answer counts as one that does not."""


class Source(Enum):
    """What could not be done."""

    STORE = "store"
    """Commits."""
    SERVE = "serve"
    """What the forwarder asks: reading, marks."""
    TIDY = "tidy"
    """Trimming, expiry, notes."""
    WAIT = "wait"
    """The disk does not answer."""


class Trouble:
    """Remembers each source's failure until that source succeeds."""

    def __init__(self) -> None:
        self._notices = Notices()
        self._faults: dict[Source, str] = {}
        self._attempts: dict[Source, int] = {}
        self._told = ""

    @property
    def fault(self) -> str:
        """Why the outbox cannot do its work, or ""."""
        return next(iter(self._faults.values()), "")

    def begin(self, source: Source, error: StoreError) -> float:
        """Notes a failure; returns how many seconds to wait before the next attempt."""
        text = f"{type(error).__name__}: {error}"
        if not self._faults and self._notices.error(
            Event.OUTBOX_FAULT, error=str(error), kind=type(error).__name__
        ):
            self._told = text
        self._faults[source] = text
        attempts = self._attempts.get(source, 0)
        self._attempts[source] = attempts + 1
        return RETRY_S[min(attempts, len(RETRY_S) - 1)]

    def end(self, source: Source) -> None:
        """Notes a success."""
        self._attempts.pop(source, None)
        self._faults.pop(source, None)
        if not self._faults and self._told:
            _log.info(Event.OUTBOX_HEALED, was=self._told)
            self._told = ""
