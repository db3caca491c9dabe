"""What a process holds: memory and descriptors."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Usage(NamedTuple):
    """At one moment."""

    rss_mb: float
    descriptors: int


def usage_of(pid: int) -> Usage:
    """Resident memory and open descriptors of a process of ours; call off the loop."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return Usage(pages * 4096 / 1024 / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir())))
