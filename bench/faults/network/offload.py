"""Windows that go to the hub: made, and judged by the answers that the device gives in the field."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.faults.drill import DrillResult
from bench.mqtt_wire import Published, WireClient, WireError
from bench.ports import HOST
from bench.stack import MODELS, Keys, stream_of_model

FAMILY: Final = "motion-class"
WINDOW: Final = 100
DEADLINE_MS: Final = 250.0
GRACE_MS: Final = 50.0
IN_TIME_SHARE: Final = 0.999
HUB_KEYS: Final[Keys] = {"models": {"packages": [str(MODELS / FAMILY / "package")]}}
ASK_ALWAYS: Final[Keys] = {"routing": {"escalate_below": 1.0, "max_escalations_per_s": 1000}}
"""Every window of a model is put to the hub."""
_CHANNELS: Final = ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
_BASE_S: Final = 1_764_590_400.0
_STEP_S: Final = 0.1
_POLL_S: Final = 0.2


def offloaded_streams() -> str:
    """The tables of the streams `motion/…`."""
    channels = "{" + ", ".join(f"{name} = {{}}" for name in _CHANNELS) + "}"
    tables = stream_of_model("motion/{1}", topic="motion/+", channels=channels, family=FAMILY)
    return f"{tables}deadline_ms = {DEADLINE_MS:g}\n"


def write_recording(path: Path, *, windows: int, streams: int) -> None:
    """A recording of so many windows, the streams in turns; call off the loop."""
    with path.open("w", encoding="utf-8") as lines:
        for step in range(windows * WINDOW):
            at_s = round(_BASE_S + step * _STEP_S, 3)
            body = {"time": at_s}
            for index, channel in enumerate(_CHANNELS):
                body[channel] = round(2.0 * math.sin(step / (3 + index)), 4)
            topic = f"motion/{step // WINDOW % streams}"
            lines.write(json.dumps({"t": at_s, "topic": topic, "payload": body}) + "\n")


class Answers:
    """Hears the verdicts of the streams `motion/…`."""

    def __init__(self, port: int, *, device: str = "journey") -> None:
        self.totals_ms: list[float] = []
        self.tiers: Counter[str] = Counter()
        self._client = WireClient(
            HOST, port, client_id="offload", filters=[f"skerry/{device}/verdict/motion/#"]
        )
        self._thread = threading.Thread(target=self._listen, name="offload", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hangs up."""
        self._client.close()
        self._thread.join(timeout=5.0)

    def judge(self, result: DrillResult) -> None:
        """Notes the figures, and a fault when more than one of a thousand answers came late."""
        late = sum(total > DEADLINE_MS + GRACE_MS for total in self.totals_ms)
        result.figures |= {
            "offload_answers": len(self.totals_ms),
            "offload_late": late,
            "offload_max_ms": round(max(self.totals_ms, default=0.0), 1),
            **{f"offload_by_{tier}": count for tier, count in sorted(self.tiers.items())},
        }
        result.expect(self.totals_ms, "no window was answered")
        result.expect(
            late <= (1 - IN_TIME_SHARE) * len(self.totals_ms),
            f"{late} of {len(self.totals_ms)} answers came later than {DEADLINE_MS:g} ms + "
            f"{GRACE_MS:g} ms",
        )

    def _listen(self) -> None:
        while True:
            try:
                messages = self._client.receive(timeout_s=_POLL_S)
            except (WireError, OSError):
                return
            for message in messages:
                self._note(message)

    def _note(self, message: Published) -> None:
        verdict: dict[str, Any] = json.loads(message.payload)
        self.totals_ms.append(sum(verdict["stages_ms"].values()))
        self.tiers[verdict["tier"]] += 1


@contextmanager
def answers(port: int) -> Iterator[Answers]:
    """Everything that is answered during the block."""
    heard = Answers(port)
    try:
        yield heard
    finally:
        heard.close()
