"""Log lines that a machine can read: a fixed event name plus keys, as JSON on stderr.

A repeat of the same event (same name and same key fields) within a minute is dropped; the next one
that is let through carries how many were (`suppressed`). Secrets never reach a line.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any, Literal, TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor

Level = Literal["debug", "info", "warning", "error"]

KEY_FIELDS = ("broker", "server", "lane", "model", "fault", "path", "command", "stream")
"""The keys that tell two events of one name apart; all others are detail."""
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)|secret|token|credential|authorization|api_?key", re.IGNORECASE
)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")
_MASK = "***"


def get_logger(**bound: object) -> FilteringBoundLogger:
    """A logger whose lines all carry `bound`."""
    return cast("FilteringBoundLogger", structlog.get_logger(**bound))


def configure_logging(level: Level = "info", fmt: Literal["json", "console"] = "json") -> None:
    """Sends every log line to stderr in one form; called once, by the command line."""
    renderer: Processor = (
        structlog.processors.JSONRenderer(default=str)
        if fmt == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            Repeats(),
            mask_secrets,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_level_number(level)),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", Unbreakable(sys.stderr))),
        cache_logger_on_first_use=False,
    )


class Unbreakable:
    """Writes to a stream, and goes on when its reader has gone: a lost log must not end the agent."""

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


class Repeats:
    """Lets an event through once per interval; remembers at most `max_kinds` kinds.

    Usable as a structlog processor.
    """

    def __init__(
        self,
        interval_s: float = 60.0,
        *,
        max_kinds: int = 512,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval_s = interval_s
        self._max_kinds = max_kinds
        self._now_s = now_s
        self._seen: OrderedDict[tuple[object, ...], list[float]] = OrderedDict()

    def __call__(
        self, _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """The event itself, or structlog.DropEvent for a repeat."""
        kind = (event.get("event"), *(str(event.get(name)) for name in KEY_FIELDS))
        now = self._now_s()
        entry = self._seen.get(kind)
        if entry is not None and now - entry[0] < self._interval_s:
            entry[1] += 1
            raise structlog.DropEvent
        if entry is not None and entry[1]:
            event["suppressed"] = int(entry[1])
        self._seen[kind] = [now, 0]
        self._seen.move_to_end(kind)
        while len(self._seen) > self._max_kinds:
            self._seen.popitem(last=False)
        return event


def mask_secrets(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """The event without the values of secret keys and without credentials in URLs."""
    for name, value in event.items():
        if _SECRET_NAME.search(name):
            event[name] = _MASK
        elif isinstance(value, str) and "://" in value:
            event[name] = _USER_INFO.sub(_MASK + "@", value)
    return event


def _level_number(level: Level) -> int:
    return {
        "debug": logging.DEBUG,
        "info": logging.INFO,
        "warning": logging.WARNING,
        "error": logging.ERROR,
    }[level]
