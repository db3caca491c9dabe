"""Options that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path

from edge_agent.settings import DEFAULT_FILE


def add_config(parser: argparse.ArgumentParser, *, default: Path | None = DEFAULT_FILE) -> None:
    """`--config FILE`."""
    told = "" if default is None else f" (default {default})"
    parser.add_argument(
        "--config",
        type=Path,
        default=default,
        metavar="FILE",
        help=f"configuration{told}",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="machine-readable output")
