"""A bystander on the field broker: sees every reading and every verdict, on one clock."""

from __future__ import annotations

import threading
import time
from collections import Counter
from datetime import datetime
from types import TracebackType

import msgspec

from bench.mqtt_wire import Published, WireClient, WireError
from deploy.demo.configuration import Device
from deploy.demo.observed import HUB, QUEUED, SeenRevision, SeenVerdict

_POLL_S = 0.2


class _Reading(msgspec.Struct):
    time: float


class _Verdict(msgspec.Struct):
    id: str
    stream: str
    time: datetime
    label: str
    tier: str
    reasons: tuple[str, ...]
    stages_ms: dict[str, float]


class _Revision(msgspec.Struct):
    verdict: str
    label: str
    agrees: bool | None


class Bystander:
    """Subscribes at QoS 0 and keeps what it sees; a thread of its own does the work.

    Lists only grow and are read whole at the end; the counters may be read at any time.
    """

    def __init__(self, host: str, port: int, *, devices: tuple[Device, ...]) -> None:
        """Connects at once; raises WireError when the broker refuses."""
        filters = ["skerry/+/verdict/#", "skerry/+/revision/#", *(each.topic for each in devices)]
        self._client = WireClient(host, port, client_id="demo-bystander", filters=filters)
        self._devices = devices
        self._seen_at: dict[tuple[str, str, int], float] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._watch, name="demo-bystander", daemon=True)
        self.verdicts: list[SeenVerdict] = []
        self.revisions: list[SeenRevision] = []
        self.queued: set[str] = set()
        self.revised: set[str] = set()
        self.by_tier: Counter[str] = Counter()
        self.readings = 0
        self.fault = ""

    def __enter__(self) -> Bystander:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing = True
        self._thread.join(timeout=5.0)
        self._client.close()

    @property
    def hub_answers(self) -> int:
        """Verdicts by the hub so far."""
        return self.by_tier[HUB]

    @property
    def unrevised(self) -> int:
        """Windows that were queued for the hub and have no revision yet."""
        return len(self.queued - self.revised)

    def _watch(self) -> None:
        try:
            while not self._closing:
                for message in self._client.receive(timeout_s=_POLL_S):
                    self._take(message, time.monotonic())
        except (WireError, msgspec.DecodeError) as error:
            self.fault = f"the bystander saw the last of it: {error}"

    def _take(self, message: Published, now_s: float) -> None:
        levels = message.topic.split("/", 3)
        if levels[0] != "skerry":
            self._reading(message, now_s)
        elif levels[2] == "verdict":
            self._verdict(levels[1], msgspec.json.decode(message.payload, type=_Verdict), now_s)
        else:
            revision = msgspec.json.decode(message.payload, type=_Revision)
            self.revisions.append(SeenRevision(revision.verdict, revision.label, revision.agrees))
            self.revised.add(revision.verdict)

    def _reading(self, message: Published, now_s: float) -> None:
        device = next((each for each in self._devices if each.takes(message.topic)), None)
        if device is None:
            return
        self.readings += 1
        reading = msgspec.json.decode(message.payload, type=_Reading)
        # Verdicts carry whole milliseconds, cut, not rounded.
        time_ms = round(reading.time * 1e6) // 1000
        self._seen_at.setdefault((device.name, device.stream_of(message.topic), time_ms), now_s)

    def _verdict(self, device: str, verdict: _Verdict, now_s: float) -> None:
        time_ms = round(verdict.time.timestamp() * 1e3)
        seen_s = self._seen_at.pop((device, verdict.stream, time_ms), None)
        self.by_tier[verdict.tier] += 1
        if QUEUED in verdict.reasons:
            self.queued.add(verdict.id)
        self.verdicts.append(
            SeenVerdict(
                id=verdict.id,
                device=device,
                stream=verdict.stream,
                time_ms=time_ms,
                label=verdict.label,
                tier=verdict.tier,
                reasons=verdict.reasons,
                waited="hub" in verdict.stages_ms,
                device_ms=sum(verdict.stages_ms.values()),
                wire_ms=None if seen_s is None else (now_s - seen_s) * 1e3,
                at_s=now_s,
            )
        )
