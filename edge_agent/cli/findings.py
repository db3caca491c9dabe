"""What `edge-agent check` finds in the configuration and the data folder, without touching the network."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edge_agent.agent.starts import read_record
from edge_agent.settings import ChannelSettings, Settings, StreamSettings

_PLACE = re.compile(r"\{(\d{1,4})\}")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    state: Literal["ok", "warning", "failed"]
    what: str
    mend: str = ""


def streams(settings: Settings) -> Iterator[Finding]:
    """What is valid in the streams' tables and cannot be meant; nothing when all is well."""
    for stream in settings.stream:
        yield from _places(stream)
        for name, channel in stream.channels.items():
            yield from _alarms(f"stream {stream.name}, channel {name}", channel)


def _places(stream: StreamSettings) -> Iterator[Finding]:
    levels = stream.topic.split("/")
    most = math.inf if levels[-1] == "#" else len(levels) - 1
    for place in _PLACE.findall(stream.name):
        if int(place) > most:
            yield Finding(
                f"stream {stream.name}",
                "failed",
                f"{{{place}}} stands for a level that {stream.topic!r} does not have: "
                f"it has levels 0 to {most:g}",
                "name a level that exists; the first is {0}",
            )


def _alarms(subject: str, channel: ChannelSettings) -> Iterator[Finding]:
    limits = (
        ("alarm_above", channel.alarm_above, "max", channel.max, 1),
        ("alarm_below", channel.alarm_below, "min", channel.min, -1),
    )
    for key, alarm, bound, limit, sign in limits:
        if alarm is not None and limit is not None and sign * alarm >= sign * limit:
            yield Finding(
                subject,
                "warning",
                f"{key} = {alarm:g} is never reached: what is beyond {bound} = {limit:g} is rejected "
                "as impossible and raises no alarm",
                f"leave room between {key} and {bound}",
            )


def data_folder(settings: Settings) -> Iterator[Finding]:
    """Whether the data folder can be used, and what safe mode does without at present."""
    yield _disk(settings)
    replaced = read_record(settings.data_dir).replaced
    if replaced is not None:
        yield Finding(
            "safe mode",
            "warning",
            "; ".join(replaced.reasons),
            "mend that, then start again: a changed configuration or package is tried again",
        )


def _disk(settings: Settings) -> Finding:
    folder = settings.data_dir
    there = next(each for each in (folder, *folder.parents) if _exists(each))
    if not there.is_dir():
        return Finding(
            "disk",
            "failed",
            f"device.data_dir: {there} is a file, not a folder",
            "choose a folder that this user may write",
        )
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding(
            "disk",
            "failed",
            f"{there} cannot be written by this user: verdicts would be given, nothing stored",
            f"run this as the service's user, or: install -d -o skerry {folder}",
        )
    free, quota = shutil.disk_usage(there).free, settings.outbox.max_bytes
    used = sum(_files_bytes(folder))
    if free + used < quota:
        return Finding(
            "disk",
            "warning",
            f"{free / 1e6:.0f} MB are free at {there}, the outbox may use {quota / 1e6:.0f} MB",
            "lower outbox.max_bytes, or free some space",
        )
    return Finding("disk", "ok", f"{free / 1e6:.0f} MB free at {there}")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # below a folder that this user may not enter
        return False


def _files_bytes(folder: Path) -> Iterator[int]:
    for path in folder.glob("**/*"):
        with suppress(OSError):  # a running agent removes files while we look
            if path.is_file():
                yield path.stat().st_size
