"""Remembers which filters the brokers were asked for: a persistent session keeps those of the past."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

FILE = "subscriptions.json"
MOST_BYTES = 4 * 1024 * 1024

Filters = dict[str, list[str]]
"""Topic filters by broker session."""


def read_subscriptions(folder: Path) -> Filters:
    """What was saved last; nothing where there is no such file or it cannot be read."""
    try:
        with (folder / FILE).open("rb") as file:
            return msgspec.json.decode(file.read(MOST_BYTES), type=Filters)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def save_subscriptions(folder: Path, filters: Mapping[str, list[str]]) -> None:
    """Replaces the file whole; raises OSError."""
    target = folder / FILE
    fresh = target.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(msgspec.json.encode(filters))
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(target)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unwanted(known: Filters, wanted: Mapping[str, list[str]]) -> Filters:
    """The filters of each session of now that it was asked for in the past and wants no more."""
    return {
        session: [topic for topic in known.get(session, []) if topic not in set(filters)]
        for session, filters in wanted.items()
    }
