"""`edge-agent run`: the service."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import threading
from typing import Any

from edge_agent.agent.beginning import Beginning, SafeMode, begin
from edge_agent.agent.lifetime import run_agent
from edge_agent.cli.options import add_config
from edge_agent.observe.logs import configure_logging

_LAST_RESORT_S = 1.0


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
    parser.add_argument(
        "--no-safe-mode",
        action="store_true",
        help="use the configuration, the models and the outbox as they are, whatever failed before",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs until SIGTERM; exit code 0 after an orderly end."""
    os.umask(0o077)  # what sensors said is nobody else's business
    beginning = begin(
        args.config, safe_mode=SafeMode.OFF if args.no_safe_mode else SafeMode.ALLOWED
    )
    configure_logging(beginning.settings.device.log_level, args.log_format)
    gc.freeze()  # what was imported lives for ever: later collections need not look at it
    asyncio.run(_live(beginning))
    return 0


async def _live(beginning: Beginning) -> None:
    assert beginning.config is not None
    await run_agent(beginning.settings, config=beginning.config, beginning=beginning)
    # A thread that waits for a dead disk must not keep the process: all that was promised is stored.
    last_resort = threading.Timer(_LAST_RESORT_S, os._exit, [0])
    last_resort.daemon = True
    last_resort.start()
