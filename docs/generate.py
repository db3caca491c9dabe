"""Makes docs/reference/ from the code: `python -m docs.generate`, or `make docs`.

`--check` writes nothing and exits with 1 when a page is not what would be made now.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "reference"
PAGES = {
    "configuration.md": "configuration",
    "cli.md": "commands",
    "mqtt.md": "mqtt",
    "metrics.md": "metrics",
    "log-events.md": "log_events",
    "reasons-and-faults.md": "closed_lists",
    "wire.md": "wire",
    "recordings.md": "recordings",
    "package.md": "package",
}


def make_page(name: str) -> str:
    """The text of one page of the reference, as the code is now."""
    module = importlib.import_module(f"docs.generator.{PAGES[name]}")
    return str(module.page())


def main(arguments: list[str]) -> int:
    """Writes every page, or with `--check` only compares; returns the exit code."""
    stale = []
    FOLDER.mkdir(exist_ok=True)
    for name in PAGES:
        path, text = FOLDER / name, make_page(name)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    verb = "stale" if "--check" in arguments else "written"
    sys.stdout.write(f"{verb}: {', '.join(stale) or 'none'}\n")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
