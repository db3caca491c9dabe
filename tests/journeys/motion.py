"""Streams whose windows the model of `models/motion-class` finds uncertain, for journeys with the hub."""

from __future__ import annotations

import json
import math
from itertools import count

from bench.stack import MODELS, stream_of_model
from tests.journeys.field import Message

PACKAGE = MODELS / "motion-class" / "package"
WINDOW = 100
CHANNELS = ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
EVERYTHING = """
[routing]
escalate_below = 1.0
max_escalations_per_s = 1000
"""
"""Every window of a model is put to the hub."""


def stream(*, deadline_ms: float = 250) -> str:
    """The tables of streams `motion/<name>`, a window each hundred readings."""
    channels = "{" + ", ".join(f"{name} = {{}}" for name in CHANNELS) + "}"
    tables = stream_of_model(
        "motion/{1}", topic="motion/+", channels=channels, family="motion-class"
    )
    return f"{tables}deadline_ms = {deadline_ms}\n"


class Wrist:
    """Sensors whose clocks go on from window to window."""

    def __init__(self) -> None:
        self._clock = count()

    def window(self, name: str) -> list[Message]:
        """The hundred readings of one window."""
        return [self._reading(name) for _ in range(WINDOW)]

    def _reading(self, name: str) -> Message:
        step = next(self._clock)
        values = {
            channel: round(2.0 * math.sin(step / (3 + index)), 4)
            for index, channel in enumerate(CHANNELS)
        }
        body = {"time": 1_764_590_400.0 + step / 10, **values}
        return f"motion/{name}", json.dumps(body).encode()
