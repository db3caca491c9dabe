"""The configuration files of the demo's hub and devices (pure text)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.demo.recordings import FLOW_TOPIC, MOTION_TOPIC

DEADLINE_MS: Final = 250.0
ESCALATE_BELOW: Final = 0.95
"""The product's default is 0.8, at which four windows of this data are uncertain. The demo asks for
more certainty, so that one can watch the hub at work: about thirty-five windows."""
BOILER_TOPIC: Final = "sim"


@dataclass(frozen=True, slots=True)
class Device:
    """One edge device of the demo: which readings are its own, and how its windows fall due."""

    name: str
    what: str
    topic: str
    """Topic filter of its sensors."""
    stream: str
    """Name of its streams; {1} is the second level of the topic."""
    channels: tuple[str, ...]
    family: str | None
    window: int
    hop: int

    def stream_of(self, topic: str) -> str:
        """The stream that a message on this topic belongs to."""
        return self.stream.replace("{1}", topic.rsplit("/", 1)[-1])

    def takes(self, topic: str) -> bool:
        """Whether the device's filter matches the topic."""
        if self.topic.endswith("/+"):
            return topic.rsplit("/", 1)[0] == self.topic[:-2]
        return topic == self.topic

    def due(self, readings: int) -> int:
        """Windows that so many readings of one stream make due."""
        return 0 if readings < self.window else (readings - self.window) // self.hop + 1


PUMP: Final = Device(
    name="pump-station",
    what="water flow of a pipe (river: WaterFlow), INT8 anomaly model",
    topic=FLOW_TOPIC,
    stream="flow",
    channels=("flow",),
    family="waterflow-anomaly",
    window=12,
    hop=1,
)
WORKSHOP: Final = Device(
    name="workshop",
    what="motion of a wrist (sktime: BasicMotions), INT8 classifier",
    topic=f"{MOTION_TOPIC}/+",
    stream="motion/{1}",
    channels=("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z"),
    family="motion-class",
    window=100,
    hop=100,
)
BOILERS: Final = Device(
    name="boiler-house",
    what="made-up boilers, four channels each, no model: the baseline tier",
    topic=f"{BOILER_TOPIC}/+",
    stream="boiler/{1}",
    channels=("a", "b", "c", "d"),
    family=None,
    window=1,
    hop=1,
)
DEVICES: Final = (PUMP, WORKSHOP, BOILERS)


def device_toml(device: Device, *, home: Path, models: Path, broker_url: str, hub_url: str) -> str:
    """The configuration of one device; intervals are short, so that a minute shows what a day does."""
    lines = [
        "[device]",
        f"name = {_text(device.name)}",
        f"data_dir = {_text(home)}",
        "[broker]",
        f"url = {_text(broker_url)}",
        "[hub]",
        f"url = {_text(hub_url)}",
        "reconnect_jitter_s = 1",
        "drain_jitter_s = 1",
        "state_interval_s = 5",
        "drain_state_interval_s = 0.5",
        "probe_interval_s = 1",
        "publish_timeout_s = 2",
        "[routing]",
        f"escalate_below = {ESCALATE_BELOW}",
        "[outbox]",
        "max_bytes = 67108864",
        "rollup_interval_s = 10",
        "[http]",
        "port = 0",
        "[[stream]]",
        f"name = {_text(device.stream)}",
        f"topic = {_text(device.topic)}",
        'time = "recorded"',
        f"deadline_ms = {DEADLINE_MS:g}",
        f"channels = {{ {', '.join(f'{name} = {{}}' for name in device.channels)} }}",
    ]
    if device.family is not None:
        lines += [
            f"model = {_text(device.family)}",
            "[[model]]",
            f"package = {_text(models / device.family / 'package')}",
        ]
    return "\n".join([*lines, ""])


def hub_toml(*, home: Path, models: Path, url: str, monitor_url: str, http_port: int) -> str:
    """The configuration of the hub. After a kill, what it had in hand comes again after two seconds."""
    packages = [models / device.family / "package" for device in DEVICES if device.family]
    return "\n".join(
        [
            "[nats]",
            f"url = {_text(url)}",
            f"monitor_url = {_text(monitor_url)}",
            "max_stream_bytes = 67108864",
            "[store]",
            f"data_dir = {_text(home)}",
            "[models]",
            f"packages = [{', '.join(_text(each) for each in packages)}]",
            "[ingest]",
            "ack_wait_s = 2",
            "[http]",
            f"port = {http_port}",
            "",
        ]
    )


def _text(value: str | Path) -> str:
    """A basic TOML string: JSON's escapes are TOML's too."""
    return json.dumps(str(value))
