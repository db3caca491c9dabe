"""recordings.md: the format of recorded messages."""

from __future__ import annotations

import inspect

from docs.generator.markdown import block, document
from edge_agent.sources import recording


def page() -> str:
    """The page: the docstring of the module that reads them."""
    parts = (inspect.getdoc(recording) or "").split("\n\n")
    shown = [
        block(inspect.cleandoc(part), "json") if part.startswith("    {") else part
        for part in parts
    ]
    return document(
        "Recordings",
        "What `edge-agent replay` and `edge-agent simulate` read.",
        *shown,
        f"A line has at most {recording._MAX_LINE_BYTES // 1024**2} MiB. A broken line ends the reading with "
        "an error that names the file and the line.",
    )
