"""Options that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path

from edge_agent.settings import DEFAULT_FILE


def add_config(parser: argparse.ArgumentParser) -> None:
    """`--config FILE`."""
    parser.add_argument(
        "--config",
        type=Path,
        default=DEFAULT_FILE,
        metavar="FILE",
        help=f"configuration (default {DEFAULT_FILE})",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="machine-readable output")
