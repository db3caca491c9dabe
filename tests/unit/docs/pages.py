"""The documents as their tests see them: pages, links, headings and blocks of code."""

import re
from pathlib import Path

from tests.architecture.tree import ROOT, project_files

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")

PAGES = tuple(
    path for path in project_files() if path.suffix == ".md" and path.is_relative_to(ROOT / "docs")
)
DOCUMENTS = (
    *PAGES,
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md")),
)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(path: Path, language: str) -> list[str]:
    """The blocks of code of one language."""
    return [body for found, body in _FENCE.findall(text_of(path)) if found == language]


def words_in_code(path: Path) -> list[str]:
    """Every piece of code within a line."""
    return _CODE.findall(_FENCE.sub("", text_of(path)))


def links(path: Path) -> list[str]:
    return _LINK.findall(_FENCE.sub("", text_of(path)))


def anchors(path: Path) -> set[str]:
    """What a link may name behind `#`, as GitHub and GitLab make it from a heading."""
    found: dict[str, int] = {}
    names = set()
    for heading in _HEADING.findall(_FENCE.sub("", text_of(path))):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return names
