"""`edge-agent rehearse`: failure drills on this installation, in a scratch copy, before it is trusted."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from edge_agent.cli.options import add_json
from edge_agent.errors import ConfigurationError, EdgeError
from edge_agent.rehearse.catalogue import DRILLS, choose
from edge_agent.rehearse.rehearsal import (
    LEAST_READINGS,
    MOST_READINGS,
    USUAL_READINGS,
    Interrupted,
    Wanted,
    rehearse,
)
from edge_agent.rehearse.servers import Choice
from edge_agent.rehearse.sheet import as_json, as_text

EXIT_PASSED, EXIT_FAILED, EXIT_CANNOT, EXIT_INTERRUPTED = 0, 1, 2, 130


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "rehearse",
        help="failure drills on this installation, in a scratch copy",
        description="Runs failure drills on a scratch copy of this installation: its streams, models, settings "
        "and outbox; its broker, hub and data folder are not touched. Exit code: 0 all passed, 1 a drill "
        "failed, 2 it cannot run.",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration; default: a built-in sample"
    )
    parser.add_argument(
        "--drills", metavar="A,B", help=f"some of {', '.join(DRILLS)}; default: all, in this order"
    )
    parser.add_argument(
        "--readings",
        type=int,
        default=USUAL_READINGS,
        metavar="N",
        help=f"readings a drill, at least {LEAST_READINGS} (default {USUAL_READINGS})",
    )
    parser.add_argument(
        "--servers",
        choices=[each.value for each in Choice],
        default=Choice.AUTO.value,
        help="auto: mosquitto, nats-server and cloud-hub where they are installed (default); "
        "stand-in: the built-in ones",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the scratch folder, with all logs"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the drills and prints the sheet."""
    if not LEAST_READINGS <= args.readings <= MOST_READINGS:
        raise ConfigurationError(
            f"--readings {args.readings}: a drill needs at least {LEAST_READINGS} readings to prove "
            f"anything, and at most {MOST_READINGS}"
        )
    wanted = Wanted(
        config=args.config,
        drills=choose(args.drills),
        readings=args.readings,
        servers=Choice(args.servers),
        keep=args.keep,
    )
    try:
        sheet = asyncio.run(rehearse(wanted, say=_say))
    except Interrupted:
        print("edge-agent rehearse: interrupted; everything was stopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (EdgeError, OSError) as error:
        print(f"edge-agent rehearse cannot run: {error}", file=sys.stderr)
        return EXIT_CANNOT
    print(json.dumps(as_json(sheet)) if args.json else as_text(sheet))
    return EXIT_PASSED if sheet.ok else EXIT_FAILED


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
