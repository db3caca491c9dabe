"""Topic filters of MQTT (pure): matching, and the levels that wildcards stood for."""

from __future__ import annotations

import re

_PLACE = re.compile(r"\{(\d{1,4})\}")


def match_levels(pattern: str, topic: str) -> tuple[str, ...] | None:
    """What each wildcard of the filter matched, in order; None when the topic does not match.

    As MQTT says: `+` is one level, `#` the rest (also nothing), and neither matches a first level
    that begins with `$`.
    """
    wanted, levels = pattern.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return None
    matched: list[str] = []
    for position, level in enumerate(wanted):
        if level == "#":
            return (*matched, "/".join(levels[position:]))
        if position >= len(levels):
            return None
        if level == "+":
            matched.append(levels[position])
        elif level != levels[position]:
            return None
    return tuple(matched) if len(levels) == len(wanted) else None


def stream_name(template: str, pattern: str, topic: str, matched: tuple[str, ...]) -> str:
    """The stream of a topic: the template's `{n}` are the topic's levels.

    A template without places, in a table whose filter has wildcards, gets what they matched
    appended, so that two topics never share a stream by accident. Characters that a topic or a
    file of ours could not carry are percent-encoded; an empty level is a lone `%`.
    """
    levels = topic.split("/")
    if "{" in template:
        name = template
        for position, level in enumerate(levels):
            name = name.replace(f"{{{position}}}", _clean(level))
        return name
    parts = [_clean(level) for level in matched]
    wanted = pattern.split("/")
    if wanted[-1] == "#" and len(levels) < len(wanted):
        parts.pop()  # `a/#` also matches `a`: that is another topic than `a/`
    return "/".join((template, *parts))


def may_name(template: str, pattern: str, name: str) -> bool:
    """Whether `stream_name` could give this name for a topic that the filter matches."""
    wanted = pattern.split("/")
    if "{" in template:
        pieces = _PLACE.split(template)
        levels = [_level(int(piece), wanted) for piece in pieces[1::2]]
        places = [*levels, ""]
        text = "".join(re.escape(a) + b for a, b in zip(pieces[::2], places, strict=True))
        return re.fullmatch(text, name) is not None
    single = "/[^/]+" * wanted.count("+")
    rest = "(?:/.+)?" if wanted[-1] == "#" else ""
    return re.fullmatch(re.escape(template) + single + rest, name) is not None


def _level(position: int, wanted: list[str]) -> str:
    """The pattern of what a template's place may become."""
    if position < len(wanted) and wanted[position] not in ("+", "#"):
        return re.escape(_clean(wanted[position]))
    if position < len(wanted) or wanted[-1] == "#":
        return "(?:[^/]+|" + re.escape(f"{{{position}}}") + ")"
    return re.escape(f"{{{position}}}")


def _clean(text: str) -> str:
    return (
        "".join(
            c
            if c.isalnum() or c in "_.-/"
            else "".join(f"%{byte:02X}" for byte in c.encode("utf-8", "surrogatepass"))
            for c in text
        )
        or "%"
    )
