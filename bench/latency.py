"""Publish to verdict on MQTT: one process publishes at an even pace and subscribes, on one clock."""

import math
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from bench.agent import PROBE, VERDICTS
from bench.mqtt_wire import Published, WireClient, WireError, publish_packet
from bench.toy_package import WINDOW_ROWS
from bench.waves import Sensors

STREAMS = 10
_STEP_S = 0.01
_BASE_S = 1_790_000_000.0
_LATE_S = 5.0
_POLL_S = 0.2


class _Verdict(msgspec.Struct):
    time: datetime


class VerdictClock:
    """Sends probes, each known by its time, and notes when its verdict came."""

    def __init__(self, host: str, port: int) -> None:
        """Connects; raises WireError."""
        self._sender = WireClient(host, port, client_id="bench-probe")
        self._receiver = WireClient(
            host, port, client_id="bench-verdicts", filters=[f"{VERDICTS[:-1]}probe/+"]
        )
        self._sensors = Sensors()
        self._number = 0
        self._sent_s: dict[int, float] = {}
        self._came_s: dict[int, float] = {}
        self._first = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._listen, name="bench-verdicts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hangs up."""
        self._closing = True
        self._thread.join(timeout=5.0)
        self._sender.close()
        self._receiver.close()

    def until_first_verdict(self, *, timeout_s: float) -> float:
        """Sends 1,000 readings of one stream a second until a verdict comes; returns when."""
        self._came_s.clear()
        self._first.clear()
        deadline_s = time.perf_counter() + timeout_s
        while not self._first.is_set():
            if time.perf_counter() > deadline_s:
                raise TimeoutError(f"no verdict within {timeout_s:g} s of the start")
            self._send(stream=0)
            time.sleep(0.001)
        return min(self._came_s.values())

    def fill(self) -> None:
        """Fills every stream's window, so that from now on each reading leads to a verdict."""
        for _ in range(WINDOW_ROWS):
            for stream in range(STREAMS):
                self._send(stream=stream)
            time.sleep(0.01)

    def measure(self, *, rate_per_s: int, warm_up_s: float, seconds: float) -> list[float]:
        """Latencies in ms of the readings sent evenly at a rate.

        Raises TimeoutError when a verdict did not come: an answer that is missing has no latency.
        """
        wanted: list[int] = []
        count = round(rate_per_s * (warm_up_s + seconds))
        began_s = time.perf_counter()
        for index in range(count):
            due_s = began_s + index / rate_per_s
            while (wait_s := due_s - time.perf_counter()) > 0:
                time.sleep(wait_s)
            number = self._send(stream=index % STREAMS)
            if index >= rate_per_s * warm_up_s:
                wanted.append(number)
        deadline_s = time.perf_counter() + _LATE_S
        while not all(number in self._came_s for number in wanted):
            if time.perf_counter() > deadline_s:
                missing = sum(number not in self._came_s for number in wanted)
                raise TimeoutError(f"{missing} of {len(wanted)} verdicts did not come")
            time.sleep(0.02)
        return [1e3 * (self._came_s[number] - self._sent_s[number]) for number in wanted]

    def _send(self, *, stream: int) -> int:
        number = self._number
        self._number += 1
        payload = self._sensors.payload(stream, number, time_s=_BASE_S + number * _STEP_S)
        data = publish_packet(f"{PROBE}/{stream}", payload)
        self._sent_s[number] = time.perf_counter()
        self._sender.send(data)
        return number

    def _listen(self) -> None:
        while not self._closing:
            try:
                messages = self._receiver.receive(timeout_s=_POLL_S)
            except WireError:
                return  # the missing verdicts will be reported
            if messages:
                self._note(messages, time.perf_counter())

    def _note(self, messages: list[Published], now_s: float) -> None:
        for message in messages:
            moment = msgspec.json.decode(message.payload, type=_Verdict).time
            time_s = moment.astimezone(UTC).timestamp()
            self._came_s[round((time_s - _BASE_S) / _STEP_S)] = now_s
        self._first.set()


def percentile(values: Sequence[float], percent: float) -> float:
    """By nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]
