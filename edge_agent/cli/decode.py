"""`edge-agent decode`: what a payload becomes, through the same code as in the service."""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import Any

import msgspec
import numpy as np
from pydantic import ValidationError

from contract.trust import ReadingFlag
from edge_agent.cli.options import add_config, add_json
from edge_agent.clock import SystemClock
from edge_agent.decode.profiles import PROFILES
from edge_agent.errors import ConfigurationError
from edge_agent.outputs.payloads import iso_time
from edge_agent.pipeline.core import Pipeline
from edge_agent.pipeline.intake import Notes
from edge_agent.settings import (
    ChannelSettings,
    DeviceSettings,
    Settings,
    StreamSettings,
    load_settings,
)
from edge_agent.types import MessageBatch

MOST_BYTES = 8 * 1024 * 1024
"""More than any payload that the configuration could allow."""


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "decode",
        help="show the readings that a payload becomes, or why not",
        description="Reads one payload from standard input and shows the readings it becomes.",
    )
    add_config(parser, default=None)
    parser.set_defaults(run=run)
    parser.add_argument("--topic", required=True, help="topic that the payload came on")
    parser.add_argument(
        "--profile",
        choices=sorted(PROFILES),
        help="payload convention; with --channel, instead of a configuration",
    )
    parser.add_argument(
        "--channel",
        action="append",
        default=[],
        metavar="NAME[=PATH]",
        help="a channel to look for; may be given several times",
    )
    parser.add_argument("--time", choices=("checked", "recorded", "arrival"), default="checked")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the readings and the faults; exit code 1 when nothing could be used."""
    pipeline = Pipeline(_settings(args), {}, clock=SystemClock(), epoch="decode", timed=False)
    payload = sys.stdin.buffer.read(MOST_BYTES)
    result = describe(pipeline, args.topic, payload)
    if args.json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        _print(result)
    return 0 if result["readings"] else 1


def describe(pipeline: Pipeline, topic: str, payload: bytes) -> dict[str, Any]:
    """The readings and faults of one message, for people and programs."""
    now = time.time()
    batch = MessageBatch(
        session="decode",
        topics=[topic],
        payloads=[payload],
        qos=[0],
        mids=[0],
        dup=[False],
        retained=[False],
        arrivals_s=np.array([now]),
        arrivals_ns=np.zeros(1, dtype=np.int64),
    )
    notes = Notes(batch)
    readings = []
    for accepted in pipeline.accept(batch, notes):
        kind = pipeline.registry.kinds[accepted.kind]
        for row in range(len(accepted)):
            values = accepted.values[row].tolist()
            readings.append(
                {
                    "stream": pipeline.registry.name(accepted.kind, int(accepted.slots[row])),
                    "time": iso_time(float(accepted.times_s[row])),
                    "values": {
                        name: None if math.isnan(value) else value
                        for name, value in zip(kind.channels, values, strict=True)
                    },
                    "units": {
                        name: unit
                        for name, unit in zip(kind.channels, kind.units, strict=True)
                        if unit
                    },
                    "flags": [
                        str(flag.name).lower() for flag in ReadingFlag if accepted.flags[row] & flag
                    ],
                }
            )
    faults = [
        {"fault": str(note.fault), "stream": note.stream, "detail": note.detail}
        for note in notes.all()
    ]
    return {"topic": topic, "readings": readings, "faults": faults}


def _settings(args: argparse.Namespace) -> Settings:
    if args.config is not None:
        return load_settings(args.config)
    if not args.channel:
        raise ConfigurationError(
            "say what to look for: --config FILE, or --profile json --channel NAME[=PATH] …"
        )
    channels = {}
    for text in args.channel:
        name, _, path = text.partition("=")
        channels[name] = ChannelSettings(path=path or None)
    try:
        stream = StreamSettings(
            name="decoded",
            topic=args.topic,
            profile=args.profile or "json",
            time=args.time,
            channels=channels,
        )
        return Settings(device=DeviceSettings(name="decode"), stream=[stream])
    except ValidationError as error:
        mistakes = (
            f"--{str(each['loc'][0]).rstrip('s')}: {each['msg']}" for each in error.errors()
        )
        raise ConfigurationError("; ".join(mistakes)) from error


def _print(result: dict[str, Any]) -> None:
    for reading in result["readings"]:
        flags = f"  [{', '.join(reading['flags'])}]" if reading["flags"] else ""
        print(f"{reading['stream']}  {reading['time']}{flags}")
        for name, value in reading["values"].items():
            shown = "-" if value is None else f"{value:g}"
            print(f"  {name} = {shown} {reading['units'].get(name, '')}".rstrip())
    for fault in result["faults"]:
        print(f"{fault['fault']}: {fault['detail']}", file=sys.stderr)
    if not result["readings"]:
        print("no reading came of this payload", file=sys.stderr)
