"""The few forms of Markdown that the reference uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTICE = "<!-- Made by `make docs` from the code; do not edit. -->"


def document(title: str, *parts: str) -> str:
    """A whole page."""
    return "\n\n".join([NOTICE, f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar or a line break in a cell cannot break it."""
    lines = [
        _line(head),
        _line(["---"] * len(head)),
        *(_line([_cell(text) for text in row]) for row in rows),
    ]
    return "\n".join(lines)


def code(text: str) -> str:
    """Text as code within a line; empty text stays empty."""
    return f"`{text}`" if text else ""


def block(text: str, language: str = "") -> str:
    """Text as a block of code."""
    return f"```{language}\n{text.strip()}\n```"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    """One line, without a bar that would end the cell, and no `<` that a reader would take for HTML."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)
