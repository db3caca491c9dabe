"""Paths into a payload: `a.b`, `list[0].x`, and `"key.with.dots".tC` for keys that hold a dot."""

from __future__ import annotations

import re
from collections.abc import Callable

Step = str | int
_TOKEN = re.compile(r'\.?(?:"((?:[^"\\]|\\.)*)"|([^.\[\]"]+)|\[(-?\d{1,6})\])')
MISSING = object()
"""What a path leads to when it leads nowhere."""


def parse_path(text: str) -> tuple[Step, ...]:
    """The steps of a path; raises ValueError that quotes the path and shows a valid one."""
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or (position == 0 and text[0] == "."):
            raise ValueError(
                f"{text!r} is not a path: it breaks at character {position + 1}; "
                'write a.b, list[0].x, or "key.with.dots".x'
            )
        quoted, plain, index = match.groups()
        steps.append(int(index) if index else plain or re.sub(r"\\(.)", r"\1", quoted))
        position = match.end()
    if not steps:
        raise ValueError("an empty path; leave `path` out to use the channel's name")
    return tuple(steps)


def follow(steps: tuple[Step, ...]) -> Callable[[object], object]:
    """A function that follows the path in a decoded payload, and returns MISSING where it ends."""

    def walk(value: object) -> object:
        for step in steps:
            if isinstance(step, str):
                if not isinstance(value, dict) or step not in value:
                    return MISSING
                value = value[step]
            elif isinstance(value, list) and -len(value) <= step < len(value):
                value = value[step]
            else:
                return MISSING
        return value

    return walk
