"""`edge-agent run`: the service."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
from typing import Any

from edge_agent.agent.lifetime import run_agent
from edge_agent.cli.options import add_config
from edge_agent.observe.logs import configure_logging
from edge_agent.settings import load_settings


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("run", help="the service: sensors in, verdicts out")
    add_config(parser)
    parser.add_argument(
        "--log-format",
        choices=("json", "console"),
        default="json",
        help="json for the journal (default), console for people",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs until SIGTERM; exit code 0 after an orderly end."""
    settings = load_settings(args.config)
    configure_logging(settings.device.log_level, args.log_format)
    os.umask(0o077)  # what sensors said is nobody else's business
    gc.freeze()  # what was imported lives for ever: later collections need not look at it
    asyncio.run(run_agent(settings, config=args.config))
    return 0
