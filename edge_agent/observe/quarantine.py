"""The latest few samples of everything that was not used, with the reason: bounded, for people."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from contract.status import Fault
from edge_agent.observe.metrics import Counters
from edge_agent.types import FaultNote, JsonObject

SAMPLES_PER_FAULT = 5
SAMPLE_BYTES = 200
_TEXT_CHARACTERS = 300
_STREAMS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class _Sample:
    time_s: float
    topic: str
    stream: str
    detail: str
    payload: bytes


class Quarantine:
    """Keeps the last five samples of each fault and counts all of them in `counters`.

    Holds at most 5 × 14 samples of a few hundred bytes, whatever arrives.
    """

    def __init__(self, counters: Counters, *, samples_per_fault: int = SAMPLES_PER_FAULT) -> None:
        self._counters = counters
        self._samples: dict[Fault, deque[_Sample]] = {
            fault: deque(maxlen=samples_per_fault) for fault in Fault
        }

    def take(self, notes: Iterable[FaultNote], *, time_s: float) -> None:
        """Counts the faults of one batch and keeps their samples."""
        for note in notes:
            self._counters.count_fault(note.fault, note.count, stream=note.stream)
            if note.topic or note.detail or note.sample:
                self._samples[note.fault].append(
                    _Sample(
                        time_s=time_s,
                        topic=note.topic[:_TEXT_CHARACTERS],
                        stream=note.stream[:_TEXT_CHARACTERS],
                        detail=note.detail[:_TEXT_CHARACTERS],
                        payload=bytes(note.sample[:SAMPLE_BYTES]),
                    )
                )

    def sample(self) -> JsonObject:
        """Counts and samples as JSON, newest last; the streams with most faults first."""
        counters = self._counters
        worst = sorted(counters.stream_faults.items(), key=lambda item: -item[1])[:_STREAMS_SHOWN]
        return {
            "faults": {str(fault): n for fault, n in counters.faults.items() if n},
            "streams": [
                {"stream": stream, "fault": str(fault), "count": n} for (stream, fault), n in worst
            ],
            "samples": {
                str(fault): [
                    {
                        "time_s": sample.time_s,
                        "topic": sample.topic,
                        "stream": sample.stream,
                        "detail": sample.detail,
                        "payload": printable(sample.payload),
                    }
                    for sample in samples
                ]
                for fault, samples in self._samples.items()
                if samples
            },
        }


def printable(payload: bytes) -> str:
    """The bytes as one line of plain ASCII text: nothing in it moves a terminal's cursor."""
    return payload.decode("latin-1").encode("unicode_escape").decode("ascii")
