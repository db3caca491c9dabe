"""The real data that the demo's sensors send, and what is known to be true of it.

Run as a program it writes both into a folder: `python -m deploy.demo.recordings FOLDER`. The data
comes inside installed packages (river, sktime); nothing is downloaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

EVENTS: Final = ((93, 110), (210, 223), (329, 329), (872, 887))
"""First and last row (0-based) of each event in WaterFlow, as found by eye; the judge's own copy."""
FLOW_TOPIC: Final = "plant/flow"
MOTION_TOPIC: Final = "motion"
MOTION_START_S: Final = 1_764_590_400.0
MOTION_SPACING_S: Final = 11.0
"""A recording of ten seconds begins every eleven."""


class Truth(msgspec.Struct, frozen=True):
    """What is known of the recordings: the flow's times and events, the activity of each recording."""

    flow_times_s: tuple[float, ...]
    events: tuple[tuple[int, int], ...]
    activities: dict[str, str]
    """By recording (`r00` …)."""

    @property
    def flow_span_s(self) -> float:
        """Recorded time from the first reading of the flow to the last."""
        return self.flow_times_s[-1] - self.flow_times_s[0]

    @property
    def motion_span_s(self) -> float:
        """Recorded time from the first reading of motion to the last."""
        return MOTION_SPACING_S * len(self.activities)


def flow_path(folder: Path) -> Path:
    """The recording of the water flow."""
    return folder / "waterflow.ndjson"


def motion_path(folder: Path) -> Path:
    """The recordings of motion, one after the other."""
    return folder / "motion.ndjson"


def read_truth(folder: Path) -> Truth:
    """What is known of the recordings in a folder."""
    return msgspec.json.decode((folder / "truth.json").read_bytes(), type=Truth)


def write(folder: Path) -> None:
    """Writes recordings and truth."""
    from quantize.datasets import MOTION_CHANNELS, motion, waterflow

    times, flow = waterflow()
    series, activities = motion("test")
    names = [f"r{index:02d}" for index in range(len(series))]

    def motion_lines() -> Iterator[bytes]:
        for index, name in enumerate(names):
            for step, row in enumerate(series[index].tolist()):
                time_s = round(MOTION_START_S + MOTION_SPACING_S * index + 0.1 * step, 3)
                values = dict(zip(MOTION_CHANNELS, row, strict=True))
                yield _line(time_s, f"{MOTION_TOPIC}/{name}", values)

    flow_path(folder).write_bytes(
        b"".join(
            _line(time_s, FLOW_TOPIC, {"flow": value})
            for time_s, value in zip(times.tolist(), flow.tolist(), strict=True)
        )
    )
    motion_path(folder).write_bytes(b"".join(motion_lines()))
    truth = Truth(
        flow_times_s=tuple(times.tolist()),
        events=EVENTS,
        activities=dict(zip(names, activities, strict=True)),
    )
    (folder / "truth.json").write_bytes(msgspec.json.encode(truth))


def _line(time_s: float, topic: str, values: dict[str, float]) -> bytes:
    message = {"t": time_s, "topic": topic, "payload": {"time": time_s, **values}, "qos": 1}
    return msgspec.json.encode(message) + b"\n"


if __name__ == "__main__":
    write(Path(sys.argv[1]))
