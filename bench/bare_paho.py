"""A subscriber with stock paho and nothing else, to compare with: counts messages, prints the count.

Run as a program: `python -m bench.bare_paho HOST PORT FILTER`.
"""

import subprocess
import sys
import threading
from typing import Any

import paho.mqtt.client as paho
import psutil
from paho.mqtt.enums import CallbackAPIVersion

_PRINT_S = 0.05


class BarePaho:
    """The program above as a child process; `counted` is what it printed last."""

    def __init__(self, host: str, port: int, topic_filter: str) -> None:
        self.counted = 0
        self._ready = threading.Event()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "bench.bare_paho", host, str(port), topic_filter],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._thread = threading.Thread(target=self._read, name="bench-bare-paho", daemon=True)
        self._thread.start()
        if not self._ready.wait(timeout=15.0):
            self.stop()
            raise TimeoutError("the bare subscriber did not start")

    def cpu_s(self) -> float:
        """CPU seconds used so far."""
        times = psutil.Process(self._child.pid).cpu_times()
        return float(times.user + times.system)

    def stop(self) -> None:
        """Ends the child."""
        self._child.terminate()
        self._child.wait(10.0)
        self._thread.join(timeout=5.0)
        if self._child.stdout is not None:
            self._child.stdout.close()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self.counted = int(line)
            self._ready.set()


def main() -> None:
    """Subscribes and counts until it is stopped."""
    host, port, topic_filter = sys.argv[1:4]
    count = 0
    ready = threading.Event()
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="bench-bare-paho")

    def on_message(_client: paho.Client, _data: Any, _message: paho.MQTTMessage) -> None:
        nonlocal count
        count += 1

    def on_connect(subscriber: paho.Client, *_: Any) -> None:
        subscriber.subscribe(topic_filter, 0)

    def on_subscribe(*_: Any) -> None:
        ready.set()

    client.on_message = on_message
    client.on_connect = on_connect
    client.on_subscribe = on_subscribe
    client.connect(host, int(port))
    client.loop_start()
    ready.wait(10.0)
    while True:
        print(count, flush=True)
        threading.Event().wait(_PRINT_S)


if __name__ == "__main__":
    main()
