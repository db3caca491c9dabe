"""How many messages a second one process takes from a saturated broker, and what CPU each costs.

The publisher writes prepared bytes to a socket, so that it needs next to no CPU beside the broker and
the process under test. It keeps a bounded number of messages ahead of what the process has counted:
a broker that must drop measures its own limits, not the process.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.agent import LOAD
from bench.mqtt_wire import WireClient, publish_packet
from bench.waves import Sensors

STREAMS = 100
_READINGS = 128
_CHUNK = 500
_AHEAD = 20_000
_POLL_S = 0.05
_STALL_S = 10.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """One measurement."""

    messages: int
    seconds: float
    cpu_s: float

    @property
    def messages_per_s(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    @property
    def cpu_us_per_message(self) -> float:
        """CPU time of the process for each message."""
        return 1e6 * self.cpu_s / self.messages


def prepared_chunks(*, base_s: float) -> list[bytes]:
    """Publishes of 4-channel JSON readings of 100 streams in turn, 500 messages a chunk."""
    sensors = Sensors()
    packets = [
        publish_packet(f"{LOAD}/{stream}", sensors.payload(stream, number, time_s=base_s + number))
        for number in range(_READINGS)
        for stream in range(STREAMS)
    ]
    return [b"".join(packets[at : at + _CHUNK]) for at in range(0, len(packets), _CHUNK)]


def saturate(
    client: WireClient,
    *,
    counted: Callable[[], int],
    cpu_s: Callable[[], float],
    warm_up_s: float,
    seconds: float,
) -> Throughput:
    """Publishes as fast as the process takes it; `counted` says how many messages it has taken.

    Raises TimeoutError when the process takes nothing for ten seconds.
    """
    chunks = prepared_chunks(base_s=time.time())
    first = taken = counted()
    sent = at = 0
    began_s = polled_s = moved_s = time.perf_counter()
    mark: tuple[float, int, float] | None = None
    while True:
        if sent - (taken - first) < _AHEAD:
            client.send(chunks[at])
            at = (at + 1) % len(chunks)
            sent += _CHUNK
        else:
            time.sleep(0.001)
        now_s = time.perf_counter()
        if now_s - polled_s < _POLL_S:
            continue
        polled_s, before, taken = now_s, taken, counted()
        moved_s = now_s if taken > before else moved_s
        if now_s - moved_s > _STALL_S:
            raise TimeoutError(f"nothing was taken for {_STALL_S:g} s, after {taken:,} messages")
        if mark is None and now_s - began_s >= warm_up_s:
            mark = (time.perf_counter(), taken, cpu_s())
        elif mark is not None and now_s - mark[0] >= seconds:
            return Throughput(taken - mark[1], time.perf_counter() - mark[0], cpu_s() - mark[2])
