"""`edge-agent outbox`: what the durable queue holds, against its budgets, and what was set aside."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec

from edge_agent.agent.beginning import settings_of_running
from edge_agent.agent.socket import ask_running_agent
from edge_agent.cli.options import add_config, add_json

_SHOWN = 20


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("outbox", help="what the durable queue holds and has given up")
    add_config(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints it; exit code 1 when no agent runs."""
    found: Any = ask_running_agent(settings_of_running(args.config), "outbox")
    if args.json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        print("\n".join(lines(found)))
    return 0


def lines(found: dict[str, Any]) -> list[str]:
    """The outbox for people."""
    shown = [
        f"epoch {found['epoch']}   {_mb(found['bytes'])} of {_mb(found['quota_bytes'])}"
        + (
            f", the disk allows {_mb(found['limit_bytes'])}"
            if found["limit_bytes"] < found["quota_bytes"] * 0.8
            else ""
        )
    ]
    if found["fault"]:
        shown.append(f"FAULT  {found['fault']}")
    shown.append("lane     waiting rows         kept   oldest")
    for name, lane in found["lanes"].items():
        shown.append(
            f"{name:<8} {lane['waiting_rows']:>12,} {lane['rows']:>12,}   {_age(lane['oldest_s'])}"
        )
    shown.append("class              rows     readings       size     budget     given up")
    for name, one in found["classes"].items():
        budget = "-" if one["budget_bytes"] is None else _mb(one["budget_bytes"])
        shown.append(
            f"{name:<11} {one['rows']:>11,} {one['readings']:>12,} {_mb(one['bytes']):>10} "
            f"{budget:>10}   {one['shed_rows']:,} rows, {one['shed_readings']:,} readings"
        )
    dead = found["dead_letters"]
    if dead:
        shown.append(f"set aside: {found['dead_letters_ever']:,} ever, the newest {len(dead)} kept")
    shown += [
        f"  {one['lane']} {one['seq']:,} ({one['kind']}), {_age(one['age_s'])} ago: {one['reason']}"
        for one in dead[-_SHOWN:]
    ]
    return shown


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
