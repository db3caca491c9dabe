"""`edge-agent replay`: recorded messages through the very same path, deterministically."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from edge_agent.cli.options import add_config, add_json
from edge_agent.clock import RecordedClock
from edge_agent.inference.load import load_scorers
from edge_agent.outputs.payloads import encode_verdict, iso_time
from edge_agent.pipeline.core import Pipeline
from edge_agent.settings import load_settings
from edge_agent.sources.replay import ReplaySource

EPOCH = "replay"


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "replay",
        help="run recorded messages through the very same path",
        description="Runs recorded messages through the agent's own path, without broker or hub, "
        "and prints each verdict as a line of JSON, then a summary on standard error.",
    )
    add_config(parser)
    parser.add_argument(
        "--input",
        type=Path,
        nargs="+",
        required=True,
        metavar="PATH",
        help='recordings: one JSON object a line, {"t": …, "topic": …, "payload": …}',
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints verdicts on standard output and a summary (with --json as its last line)."""
    settings = load_settings(args.config)
    loaded = load_scorers(settings)
    for failure in loaded.failures.values():
        print(f"a lower tier answers: {failure}", file=sys.stderr)
    clock = RecordedClock()
    pipeline = Pipeline(settings, loaded.scorers, clock=clock, epoch=EPOCH, timed=False)
    source = ReplaySource(args.input)
    tiers: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    messages = readings = alarms = 0
    first_s = last_s = None
    while (batch := source.next_batch_now()) is not None:
        clock.advance(float(batch.arrivals_s.max()))
        outcome = pipeline.process(batch)
        messages += len(batch)
        readings += outcome.readings
        alarms += len(outcome.alarms)
        for note in outcome.faults:
            faults[note.fault] += note.count
        first_s = float(batch.arrivals_s[0]) if first_s is None else first_s
        last_s = float(batch.arrivals_s[-1])
        for verdict in outcome.verdicts:
            tiers[verdict.tier] += 1
            labels[verdict.label] += 1
            sys.stdout.buffer.write(encode_verdict(verdict) + b"\n")
    sys.stdout.buffer.flush()
    summary = {
        "messages": messages,
        "readings": readings,
        "verdicts": tiers.total(),
        "alarms": alarms,
        "by_tier": _plain(tiers),
        "by_label": _plain(labels),
        "faults": _plain(faults),
        "from": None if first_s is None else iso_time(first_s),
        "to": None if last_s is None else iso_time(last_s),
    }
    if args.json:
        sys.stdout.write(msgspec.json.encode({"summary": summary}).decode() + "\n")
    else:
        for name, value in summary.items():
            print(f"{name:>9}: {value}", file=sys.stderr)
    return 0


def _plain(counts: Counter[str]) -> dict[str, int]:
    return {str(name): count for name, count in counts.items()}
