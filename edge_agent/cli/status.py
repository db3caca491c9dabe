"""`edge-agent status`: the running agent at a glance."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec

from edge_agent.agent.beginning import settings_of_running
from edge_agent.agent.socket import ask_running_agent
from edge_agent.cli.options import add_config, add_json
from edge_agent.settings import DEFAULT_FILE


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("status", help="the running agent at a glance")
    add_config(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the state; exit code 1 when no agent runs."""
    status: Any = ask_running_agent(settings_of_running(args.config), "status")
    if args.json:
        sys.stdout.write(msgspec.json.encode(status).decode() + "\n")
    else:
        print("\n".join(lines(status, config=args.config)))
    return 0


def lines(status: dict[str, Any], *, config: Path = DEFAULT_FILE) -> list[str]:
    """The state for people, one thing a line."""
    hub, outbox = status["hub"], status["outbox"]
    link = hub["health"] if hub["configured"] else "none configured"
    shown = [
        f"{status['device']}  up {status['uptime_s']:.0f} s  version {status['version']}",
        *(f"DEGRADED   {each}" for each in status["degraded"]),
        (
            f"messages   {status['messages']:,}   readings {status['readings']:,}   "
            f"streams {status['streams']:,}   repeated {status['repeated']:,}"
        ),
        f"verdicts   {_counts(status['verdicts'])}   late {status['deadline_misses']}",
        f"hub        {link}" + (f" ({hub['why']})" if hub["why"] else ""),
        f"outbox     {outbox['bytes'] / 1e6:.1f} of {outbox['quota_bytes'] / 1e6:.0f} MB"
        + (f"   FAULT {outbox['fault']}" if outbox["fault"] else ""),
    ]
    for name, lane in outbox["lanes"].items():
        waiting = max(0, lane["next_seq"] - 1 - lane["applied"])
        shown.append(f"  {name:<8} {waiting:,} rows not yet at the hub, {lane['rows']:,} kept")
    if outbox["shed"]:
        shown.append(f"  shed     {_counts(outbox['shed'])}")
    shown += [
        f"broker     {each['url']}  " + ("connected" if each["connected"] else each["why"])
        for each in status["brokers"]
    ]
    for model in status["models"]:
        name = model.get("family") or model.get("package") or f"stream {model.get('stream')}"
        release = f"release {model['release']} {model['variant']}" if "release" in model else ""
        shown.append(f"model      {name}  {release} {model['fault']}".rstrip())
    if total := status["stages_ms"].get("total"):
        times = "   ".join(f"{key} {value:.2f}" for key, value in total.items() if key != "count")
        shown.append(f"latency ms {times}")
    shown += _quarantine(status)
    shown += _silent(status["silent"])
    if status["recent"]:
        # Quoted, and with the configuration that this command was given: it is to be copied.
        given = "" if config == DEFAULT_FILE else f" --config {shlex.quote(str(config))}"
        shown.append(f"explain    edge-agent explain {status['recent'][0]}{given}")
    return shown


def _silent(silent: dict[str, Any]) -> list[str]:
    """The streams that have been silent longest, first those of which nothing is known."""
    shown = [f"stream     {name}  no message ever matched" for name in silent["tables"]]
    for each in silent["streams"]:
        age_s = each["age_s"]
        when = "silent since the start" if age_s is None else f"last reading {_age(age_s)} ago"
        shown.append(f"stream     {each['stream']}  {when}")
    return shown


def _age(age_s: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if age_s >= 2 * size:
            return f"{age_s / size:.0f} {unit}"
    return f"{age_s:.0f} s"


def _quarantine(status: dict[str, Any]) -> list[str]:
    if not status["faults"]:
        return ["faults     none"]
    shown = [f"faults     {_counts(status['faults'])}"]
    for fault, samples in status["quarantine"].get("samples", {}).items():
        for sample in samples[:1]:
            where = sample.get("topic") or sample.get("stream") or "-"
            shown.append(f"  {fault}: {where}: {sample.get('detail', '')}")
    return shown


def _counts(counts: dict[str, int]) -> str:
    return "  ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"
