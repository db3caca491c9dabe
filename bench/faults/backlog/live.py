"""Live data beside a drain: probes from a process of its own, so that nothing but the device delays them.

`python -m bench.faults.backlog.live PORT RATE` sends until its standard input ends, and then prints the
latencies in ms as JSON: from publish to verdict, and from publish to the probe's own echo from the
broker, which no agent had a hand in. A machine that is slow with the second is slow with the first.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections.abc import Awaitable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from bench.agent import PROBE, VERDICTS
from bench.latency import percentile
from bench.mqtt_wire import Published, WireClient, WireError, publish_packet
from bench.ports import HOST
from bench.servers import ServerError
from bench.toy_package import WINDOW_ROWS
from bench.waves import Sensors

STREAMS: Final = 10
_BASE_S: Final = 1_790_000_000.0
_STEP_S: Final = 0.01
_POLL_S: Final = 0.2
_END_S: Final = 30.0


class _Timed(msgspec.Struct):
    time: datetime | float


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of each probe, in ms."""

    verdicts_ms: list[float]
    echoes_ms: list[float]

    def figures(self, name: str) -> dict[str, float]:
        """The percentiles to report."""
        kinds = (("verdict", self.verdicts_ms), ("echo", self.echoes_ms))
        return {
            f"{name}_{kind}_p{percent}_ms": round(percentile(values, percent), 2)
            for kind, values in kinds
            for percent in (50, 99)
        }


@dataclass(slots=True)
class Prober:
    """Sends probes evenly, and notes when their echo and their verdict came."""

    port: int
    sent_s: dict[int, float] = field(default_factory=dict)
    echo_s: dict[int, float] = field(default_factory=dict)
    verdict_s: dict[int, float] = field(default_factory=dict)
    _number: int = 0

    def run(self, *, rate_per_s: int, ended: threading.Event) -> Latencies:
        """Sends until it is told to end; raises TimeoutError when a verdict did not come."""
        sensors = Sensors()
        filters = [f"{VERDICTS[:-1]}probe/+", f"{PROBE}/+"]
        with (
            closing(WireClient(HOST, self.port, client_id="live-probe")) as sender,
            closing(
                WireClient(HOST, self.port, client_id="live-verdicts", filters=filters)
            ) as receiver,
        ):
            listening = threading.Thread(target=self._listen, args=(receiver,), daemon=True)
            listening.start()
            for _ in range(WINDOW_ROWS * STREAMS):  # each window is full then
                self._send(sender, sensors)
                time.sleep(0.001)
            print("ready", flush=True)
            first, began_s = self._number, time.perf_counter()
            while not ended.is_set():
                due_s = began_s + (self._number - first) / rate_per_s
                time.sleep(max(0.0, due_s - time.perf_counter()))
                self._send(sender, sensors)
            wanted = range(first, self._number)
            self._await(wanted)
        return Latencies(
            [1e3 * (self.verdict_s[each] - self.sent_s[each]) for each in wanted],
            [1e3 * (self.echo_s[each] - self.sent_s[each]) for each in wanted],
        )

    def _send(self, sender: WireClient, sensors: Sensors) -> None:
        number = self._number
        self._number += 1
        stream = number % STREAMS
        payload = sensors.payload(stream, number, time_s=_BASE_S + number * _STEP_S)
        self.sent_s[number] = time.perf_counter()
        sender.send(publish_packet(f"{PROBE}/{stream}", payload))

    def _await(self, wanted: range) -> None:
        deadline_s = time.perf_counter() + _END_S / 2
        while not all(each in self.verdict_s and each in self.echo_s for each in wanted):
            if time.perf_counter() > deadline_s:
                missing = sum(each not in self.verdict_s for each in wanted)
                raise TimeoutError(f"{missing} of {len(wanted)} verdicts did not come")
            time.sleep(0.02)

    def _listen(self, receiver: WireClient) -> None:
        while True:
            try:
                messages = receiver.receive(timeout_s=_POLL_S)
            except (WireError, OSError):
                return  # hung up; what is missing will be reported
            now_s = time.perf_counter()
            for message in messages:
                came_s = self.echo_s if message.topic.startswith(PROBE) else self.verdict_s
                came_s[_number_of(message)] = now_s


async def latencies_during(work: Awaitable[Any], *, port: int, rate_per_s: int) -> Latencies:
    """The latencies of probes that are sent for as long as the work takes.

    Raises what the work raises, and ServerError when a verdict did not come.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.faults.backlog.live", str(port), str(rate_per_s)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    assert process.stdout is not None
    try:
        await asyncio.wait_for(process.stdout.readline(), _END_S)
        await work
        out, err = await asyncio.wait_for(process.communicate(b""), _END_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    if process.returncode != 0:
        raise ServerError(f"the probes failed: {err.decode()[-500:]}")
    return msgspec.json.decode(out, type=Latencies)


def main() -> None:
    """Sends, measures, prints."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults.backlog.live")
    parser.add_argument("port", type=int)
    parser.add_argument("rate", type=int)
    options = parser.parse_args()
    ended = threading.Event()
    threading.Thread(target=_await_end, args=(ended,), daemon=True).start()
    found = Prober(options.port).run(rate_per_s=options.rate, ended=ended)
    sys.stdout.buffer.write(msgspec.json.encode(found))


def _await_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


def _number_of(message: Published) -> int:
    moment = msgspec.json.decode(message.payload, type=_Timed).time
    time_s = moment.timestamp() if isinstance(moment, datetime) else moment
    return round((time_s - _BASE_S) / _STEP_S)


if __name__ == "__main__":
    main()
