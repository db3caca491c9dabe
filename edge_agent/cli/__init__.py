"""The command line `edge-agent`; each command is a module, imported only when it is called."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from edge_agent.errors import ConfigurationError, EdgeError
from edge_agent.version import VERSION

COMMANDS = {
    "run": "the service: sensors in, verdicts out",
    "check": "validate the configuration, then broker, hub, models, clock and disk",
    "replay": "run recorded messages through the very same path",
    "decode": "show the readings that a payload becomes, or why not",
    "rehearse": "failure drills on this installation, in a scratch copy",
    "simulate": "publish recorded or synthetic sensor data over MQTT",
    "status": "the running agent at a glance",
    "outbox": "what the durable queue holds and has given up",
    "explain": "why a verdict is what it is",
}
EXIT_FAILED = 1
EXIT_CONFIGURATION = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 well, 1 failed, 2 wrong configuration or usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    chosen = next((each for each in arguments if not each.startswith("-")), None)
    parser = argparse.ArgumentParser(
        prog="edge-agent",
        description="Reads sensors over MQTT and answers within a deadline, always.",
    )
    parser.add_argument("--version", action="version", version=f"edge-agent {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        if name == chosen:
            importlib.import_module(f"edge_agent.cli.{name}").add_parser(commands)
        else:
            commands.add_parser(name, help=summary)
    try:
        parsed = parser.parse_args(arguments)
        return int(parsed.run(parsed))
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return EXIT_CONFIGURATION
    except EdgeError as error:
        print(error, file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
