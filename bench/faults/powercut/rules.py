"""Faults that a volume shows on demand: an error, a delay or both, for some calls on some paths."""

from __future__ import annotations

import errno
import os
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from threading import Lock

import msgspec


class Call(StrEnum):
    """What a program asks of the file system."""

    READ = "read"
    WRITE = "write"
    """Bytes, or a length."""
    SYNC = "sync"
    """fsync and fdatasync, of a file or a folder."""
    NAMES = "names"
    """A name made, changed or removed."""
    OPEN = "open"
    """An existing file opened to be read."""
    OPEN_TO_WRITE = "open_to_write"


CHANGES = (Call.WRITE, Call.NAMES, Call.OPEN_TO_WRITE)
"""What a file system that is mounted read-only refuses."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The calls it meets fail, wait, or wait and fail; the first rule that meets a call decides."""

    calls: tuple[Call, ...]
    path: str = "*"
    """A glob over the path inside the volume, "/" first; `*` also matches slashes."""
    error: str = ""
    """The name of an errno, such as "EIO"; empty: none."""
    delay_ms: float = 0
    after: int = 0
    """So many calls pass before the rule takes hold."""
    times: int | None = None
    """Then it takes hold so often; None: until it is taken away."""

    def meets(self, call: Call, path: str) -> bool:
        """Whether the rule speaks of such a call."""
        return call in self.calls and fnmatchcase(path, self.path)

    def problem(self) -> str:
        """What is wrong with the rule; empty when nothing is."""
        known = not self.error or hasattr(errno, self.error)
        return "" if known else f"{self.error} is not the name of an errno"


@dataclass(slots=True)
class Rules:
    """The rules that hold now, and how often each call was made; safe for threads."""

    _rules: list[Rule] = field(default_factory=list)
    _met: list[int] = field(default_factory=list)
    _calls: Counter[Call] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def replace(self, rules: tuple[Rule, ...]) -> None:
        """From now on these rules hold and no others."""
        with self._lock:
            self._rules, self._met = list(rules), [0] * len(rules)

    def counts(self) -> dict[str, int]:
        """How often each kind of call was made since the volume was mounted."""
        with self._lock:
            return {call.value: self._calls[call] for call in Call}

    def hits(self) -> list[int]:
        """How often each rule took hold."""
        with self._lock:
            return [
                max(0, met - rule.after) for rule, met in zip(self._rules, self._met, strict=True)
            ]

    def judge(self, call: Call, path: str) -> tuple[float, OSError | None]:
        """The seconds that the call must wait, and the error that it must then raise."""
        with self._lock:
            self._calls[call] += 1
            for index, rule in enumerate(self._rules):
                if not rule.meets(call, path):
                    continue
                met = self._met[index]
                if rule.times is not None and met >= rule.after + rule.times:
                    continue
                self._met[index] = met + 1
                if met < rule.after:
                    continue
                return rule.delay_ms / 1e3, _error(rule.error)
        return 0.0, None


def _error(name: str) -> OSError | None:
    if not name:
        return None
    number = getattr(errno, name)
    return OSError(number, os.strerror(number))
