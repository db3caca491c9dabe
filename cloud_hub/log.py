"""Structured logging: one JSON line an event, each event name fixed, and none of them a flood.

The event names are the first arguments of the log calls of this package; `docs` lists them.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final, TextIO, cast

import structlog

REPEAT_S: Final = 60.0
"""A warning or error with the same event and `key` is written at most once in this time."""

_LIMITED: Final = frozenset({"warning", "error"})
_MAX_KEYS: Final = 1024


class RepeatLimit:
    """A structlog processor that drops repeated warnings and errors, and counts what it dropped.

    Two entries are repetitions when event and `key` (if any) agree. The next entry that passes carries
    `repeated`: how many were dropped.
    """

    def __init__(
        self, *, interval_s: float = REPEAT_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def __call__(
        self, logger: Any, method: str, entry: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Passes the entry on, or raises DropEvent."""
        if method not in _LIMITED:
            return entry
        now, name = self._clock(), (str(entry.get("event")), str(entry.get("key", "")))
        then, dropped = self._last.get(name, (None, 0))
        if then is not None and now - then < self._interval_s:
            self._last[name] = (then, dropped + 1)
            raise structlog.DropEvent
        if len(self._last) >= _MAX_KEYS:
            self._last.clear()
        self._last[name] = (now, 0)
        if dropped:
            entry["repeated"] = dropped
        return entry


class Unbreakable:
    """Writes to a stream, and goes on when its reader has gone: a lost log must not end the hub."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes, or drops the text when nobody can read it."""
        with suppress(OSError, ValueError):
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        """Hands on what was written, if somebody still reads."""
        with suppress(OSError, ValueError):
            self._stream.flush()


def configure_logging(*, level: str = "info") -> None:
    """Sends the hub's events to stderr as JSON lines, and silences other libraries below warnings."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            RepeatLimit(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", Unbreakable(sys.stderr))),
        cache_logger_on_first_use=False,
    )
    logging.getLogger("nats").setLevel(logging.CRITICAL)
    logging.getLogger("httpx").setLevel(logging.WARNING)
