"""`edge-agent explain ID`: why a verdict is what it is, with the numbers."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec

from edge_agent.agent.beginning import settings_of_running
from edge_agent.agent.socket import ask_running_agent
from edge_agent.cli.options import add_config, add_json
from edge_agent.outputs.payloads import iso_time


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("explain", help="why a verdict is what it is")
    parser.add_argument("id", help="the id of a verdict of the running agent, or `last`")
    add_config(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the explanation; exit code 1 when the verdict is not known."""
    found: Any = ask_running_agent(settings_of_running(args.config), "explain", {"id": args.id})
    if args.json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        print("\n".join(lines(found)))
    return 0


def lines(found: dict[str, Any]) -> list[str]:
    """The explanation for people."""
    model = f", model {found['model']} release {found['release']}" if found["model"] else ""
    shown = [
        f"{found['id']}  {found['stream']}  {iso_time(found['time_s'])}",
        (
            f"answer   {found['label']}, score {found['score']:.4g}, "
            f"confidence {found['confidence']:.3f}"
        ),
        f"from     tier {found['tier']}{model}",
        (
            f"window   reading {found['number']} is its last; "
            f"from {iso_time(found['window_from_s'])} to {iso_time(found['time_s'])}"
        ),
        f"latency  {found['inputs']['latency_ms']:.2f} ms of {found['inputs']['deadline_ms']:g} ms",
    ]
    if found["stale_ms"]:
        shown.append(f"stale    {found['stale_ms']:.0f} ms old")
    shown += [f"because  {reason['reason']}: {reason['text']}" for reason in found["because"]]
    shown += [f"stage    {name:<10} {ms:8.3f} ms" for name, ms in found["stages_ms"].items()]
    return shown
