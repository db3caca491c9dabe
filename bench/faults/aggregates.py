"""What the hub says about its readings, against the same figures computed here from unique readings."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, Final

import numpy as np

from bench.stack import Hub

_ROWS: Final = 'SELECT stream, times, channels, "values", device FROM telemetry'


async def differences(hub: Hub, *, device: str = "journey") -> list[str]:
    """A sentence for each aggregate of `cloud-hub telemetry stats` that a recomputation does not confirm."""
    told = await hub.ask("telemetry", "stats", "--device", device)
    unique = await asyncio.to_thread(_unique, hub, device)
    found: list[str] = []
    if told["stored"] != sum(len(readings) for readings in unique.values()):
        found.append(f"the hub counts {told['stored']} readings, each once they are fewer or more")
    streams = {each["stream"]: each for each in told["streams"]}
    if streams.keys() != unique.keys():
        found.append(f"the hub tells of {sorted(streams)}, there are {sorted(unique)}")
    for name in streams.keys() & unique.keys():
        found += _compare(streams[name], unique[name])
    return found


def _unique(hub: Hub, device: str) -> dict[str, dict[float, dict[str, float]]]:
    """The values of each reading, once, by stream and time."""
    found: dict[str, dict[float, dict[str, float]]] = {}
    for stream, times, channels, values, owner in hub.rows(_ROWS):
        if owner != device:
            continue
        names = json.loads(channels)
        table = np.frombuffer(values, "<f8").reshape(-1, len(names)).tolist()
        readings = found.setdefault(stream, {})
        for time, row in zip(np.frombuffer(times, "<f8").tolist(), table, strict=True):
            readings[time] = dict(zip(names, row, strict=True))
    return found


def _compare(told: dict[str, Any], readings: dict[float, dict[str, float]]) -> list[str]:
    name = told["stream"]
    found: list[str] = []
    if told["readings"] != len(readings):
        found.append(f"{name}: {told['readings']} readings told, {len(readings)} are there")
    for channel in told["channels"]:
        column = [row[channel["channel"]] for row in readings.values()]
        there = [value for value in column if math.isfinite(value)]
        computed = {
            "count": float(len(there)),
            "minimum": min(there),
            "maximum": max(there),
            "mean": math.fsum(there) / len(there),
        }
        found += [
            f"{name} {channel['channel']}: {figure} is told as {channel[figure]}, and is {value}"
            for figure, value in computed.items()
            if not math.isclose(channel[figure], value, rel_tol=1e-9, abs_tol=1e-12)
        ]
    return found
