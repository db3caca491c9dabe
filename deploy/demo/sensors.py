"""The field sensors: `edge-agent simulate` at QoS 1, each with a ledger of what the broker took."""

from __future__ import annotations

import asyncio
import signal
import sysconfig
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from deploy.demo.configuration import BOILERS, PUMP, WORKSHOP, Device
from deploy.demo.recordings import Truth, flow_path, motion_path
from deploy.demo.site import DemoError

_STOP_S = 5.0
_FOREVER = 10**9


@dataclass(frozen=True, slots=True)
class Load:
    """How long the recordings play, and how much the made-up boilers send beside them."""

    play_s: float
    boilers: int
    boiler_rate_per_s: int


class _Line(msgspec.Struct):
    t: float
    topic: str


class Sensor:
    """One `simulate` process of one device."""

    def __init__(
        self, device: Device, arguments: list[str], *, folder: Path, ledger: str = "ledger.ndjson"
    ) -> None:
        self.device = device
        self.sent = 0
        self.ledger_path = folder / f"{device.name}.{ledger}" if ledger else None
        self.log_path = folder / f"{device.name}-sensors.log"
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, broker_url: str) -> None:
        """Begins to publish."""
        command = [str(Path(sysconfig.get_path("scripts"), "edge-agent")), "simulate"]
        options = ["--broker", broker_url, "--qos", "1"]
        if self.ledger_path is not None:
            options += ["--ledger", str(self.ledger_path)]
        with self.log_path.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                *options,
                "--json",
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def running(self) -> bool:
        """Whether it still publishes."""
        return self._process is not None and self._process.returncode is None

    def check(self) -> None:
        """Raises DemoError when it has ended with a failure."""
        code = None if self._process is None else self._process.returncode
        if code:  # negative: ended by a signal
            raise DemoError(
                f"the sensors of {self.device.name} failed with exit code {code}; "
                f"their log: {self.log_path}"
            )

    async def finished(self) -> None:
        """Returns once everything was sent and acknowledged; raises DemoError when it was not."""
        assert self._process is not None
        out, _ = await self._process.communicate()
        self.check()
        self.sent = int(msgspec.json.decode(out, type=dict[str, Any])["sent"])

    async def stop(self) -> None:
        """Ends it if it runs."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def acknowledged(self) -> list[tuple[float, str]]:
        """Time and topic of each reading that the broker took; none without a ledger."""
        if self.ledger_path is None:
            return []
        decoder = msgspec.json.Decoder(_Line)
        lines = decoder.decode_lines(self.ledger_path.read_bytes())
        return [(line.t, line.topic) for line in lines]


def make_sensors(folder: Path, truth: Truth, load: Load) -> list[Sensor]:
    """The sensors of all devices; all end after about `play_s`."""

    def recorded(device: Device, path: Path, span_s: float) -> Sensor:
        arguments = ["--input", str(path), "--speed", f"{span_s / load.play_s:.6f}"]
        return Sensor(device, arguments, folder=folder)

    return [
        recorded(PUMP, flow_path(folder), truth.flow_span_s),
        recorded(WORKSHOP, motion_path(folder), truth.motion_span_s),
        Sensor(
            BOILERS,
            [*_boilers(load), "--messages", str(round(load.boiler_rate_per_s * load.play_s))],
            folder=folder,
        ),
    ]


def endless_boilers(folder: Path, load: Load) -> Sensor:
    """The made-up boilers once more, until stopped; without a ledger."""
    arguments = [*_boilers(load), "--messages", str(_FOREVER)]
    return Sensor(BOILERS, arguments, folder=folder, ledger="")


def _boilers(load: Load) -> list[str]:
    return ["--synthetic", str(load.boilers), "--rate", str(load.boiler_rate_per_s)]
