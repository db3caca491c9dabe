"""What several commands share: options, times as people write them, and JSON on stdout."""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="Configuration file; default /etc/skerry/cloud-hub.toml.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def console() -> Console:
    """Where tables for people go."""
    return Console(soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON document on stdout; what is not finite becomes null."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    sys.stdout.write(text + "\n")


def iso(time_s: float | None) -> str | None:
    """A time as ISO 8601 in UTC with milliseconds; a time that no calendar has stays a number."""
    if time_s is None or not math.isfinite(time_s):
        return None
    try:
        text = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{time_s:.3f}"
    return text.replace("+00:00", "Z")


def parse_time(text: str | None, option: str) -> float | None:
    """UTC seconds from ISO 8601 (UTC where no zone is named) or seconds since 1970."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time; write 2026-01-31T12:00:00Z, or seconds since 1970",
            param_hint=option,
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
