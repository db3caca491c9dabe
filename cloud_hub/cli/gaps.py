"""How a gap is told to people."""

from __future__ import annotations

from rich.markup import escape

from cloud_hub.cli.options import iso
from cloud_hub.store.gap_queries import DeclaredGap


def gap_line(gap: DeclaredGap) -> str:
    """One line: how many readings, when, why; marked up for rich."""
    count = f"{gap.readings:,} readings" if gap.exact or gap.readings else "readings"
    about = "" if gap.exact else " (not counted exactly)"
    between = f"between {iso(gap.after_s) or '?'} and {iso(gap.before_s) or '?'}"
    kept = f", every {gap.stride}th row kept" if gap.stride > 1 else ""
    held = f"; {gap.held:,} more came all the same" if gap.held else ""
    return f"gap: {count} given up{about} {between}{kept} ({escape(gap.reason)}){held}"
