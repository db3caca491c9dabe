"""A scratch installation: the configuration with its ends replaced, and a copy of the outbox as it is found.

The real broker, hub and data folder are never connected to, and never written.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edge_agent.rehearse.ports import HOST
from edge_agent.rehearse.toml_text import toml_of
from edge_agent.settings import Settings, load_settings

MAX_COPY_BYTES: Final = 256 * 1024 * 1024
SHORTER_S: Final = {
    "reconnect_jitter_s": 0.3,
    "drain_jitter_s": 0.3,
    "drain_state_interval_s": 0.5,
    "probe_interval_s": 1.0,
    "publish_timeout_s": 2.0,
}
"""Waits that spread a fleet in time; a drill with one device has nothing to spread."""
SAMPLE: Final = """
[device]
name = "rehearsal"

[[stream]]
name = "pump/{1}"
topic = "plant/+/pump"
channels = {flow = {unit = "m3/h", min = 0, max = 90}, pressure = {path = "p.bar", unit = "bar", min = 0, max = 16}}

[[stream]]
name = "room"
topic = "plant/room/climate"
channels = {temperature = {unit = "C", min = -40, max = 80}, humidity = {unit = "%", min = 0, max = 100}}
"""


@dataclass(frozen=True, slots=True)
class Copy:
    """What became of the outbox that was found; `why` says why there is no copy."""

    files: int = 0
    bytes: int = 0
    why: str = ""


def sample_settings(folder: Path) -> Settings:
    """The built-in installation."""
    path = folder / "sample.toml"
    path.write_text(SAMPLE, encoding="utf-8")
    return load_settings(path)


def scratch_tables(
    settings: Settings, *, data_dir: Path, broker_port: int, hub_port: int, mqtt5: bool
) -> tuple[dict[str, Any], list[str]]:
    """The tables of the scratch configuration, and in words what differs from the real one."""
    plain = settings.model_dump(mode="json", exclude_none=True)
    first = settings.brokers[0]
    notes: list[str] = []
    if len(settings.brokers) > 1:
        notes.append(f"the {len(settings.brokers)} brokers are one here")
    if first.qos == 0:
        notes.append("broker.qos is 0: the agent promises nothing for what it takes at QoS 0")
    protocol = first.protocol
    if protocol == "5" and not mqtt5:
        protocol = "3.1.1"
        notes.append("the stand-in broker speaks MQTT 3.1.1, not 5")
    if not settings.hub.urls:
        notes.append("no [hub] is configured: the drill adds one")
    hub = {name: each for name, each in plain["hub"].items() if name in _HUB_KEPT}
    shorter = [name for name, most in SHORTER_S.items() if hub.get(name, most) > most]
    hub |= {name: min(hub.get(name, most), most) for name, most in SHORTER_S.items()}
    if shorter:
        notes.append(f"shortened for the drill: hub.{', hub.'.join(shorter)}")
    plain["device"]["data_dir"] = str(data_dir)
    plain["device"]["log_level"] = "info"
    plain["broker"] = {
        "url": f"mqtt://{HOST}:{broker_port}",
        "client_id": first.client_id,
        "protocol": protocol,
        "qos": first.qos,
        "keepalive_s": first.keepalive_s,
        "max_batch_messages": first.max_batch_messages,
    }
    plain["hub"] = {"url": f"nats://{HOST}:{hub_port}", **hub}
    plain["http"] = {"enabled": False}
    plain["model"] = [{"package": str(each.package)} for each in settings.model]
    if not plain["model"]:
        del plain["model"]
    return plain, notes


_HUB_KEPT: Final = frozenset((*SHORTER_S, "state_interval_s", "drain_bytes_per_s"))


def write_configuration(path: Path, tables: dict[str, Any]) -> None:
    """Writes the scratch configuration."""
    path.write_text(toml_of(tables), encoding="utf-8")


def copy_outbox(source: Path, target: Path) -> Copy:
    """Copies the outbox's files as they are, also from under a running agent, which notices nothing.

    Only reads of the source happen. A file and its log are copied until they belong together.
    """
    try:
        files = [path for name in _FILES for path in _with_log(source / name) if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        if not files:
            return Copy(why="there is no outbox yet")
        if size > MAX_COPY_BYTES:
            return Copy(why=f"it takes {size / 1e6:.0f} MB, more than the drill copies")
        if shutil.disk_usage(target.parent).free < 4 * size:
            return Copy(why=f"the scratch folder has no room for {size / 1e6:.0f} MB")
        target.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            if not any(_copy_pair(source / name, target / name) for _ in range(_TRIES)):
                shutil.rmtree(target)
                return Copy(why="it was being written all the time")
    except FileNotFoundError:
        return Copy(why="there is no outbox yet")
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        return Copy(why=f"it cannot be read by this user: {error.strerror}")
    return Copy(files=len(files), bytes=size)


def _copy_pair(source: Path, target: Path) -> bool:
    """Copies a file and its log; whether the log was not begun anew meanwhile, so that they belong together."""
    _, log = _with_log(source)
    before = _generation(log)
    for path in _with_log(source):
        copied = target.parent / path.name
        if path.exists():
            shutil.copyfile(path, copied)
        else:
            copied.unlink(missing_ok=True)
    return before == _generation(target.parent / log.name)


def _with_log(path: Path) -> tuple[Path, Path]:
    return path, path.with_name(f"{path.name}-wal")


def _generation(log: Path) -> bytes:
    """The salts of a write-ahead log: they change when it is begun anew."""
    try:
        with log.open("rb") as file:
            return file.read(32)[16:24]
    except FileNotFoundError:
        return b""


_FILES: Final = ("spool.db", "state.db")
_TRIES: Final = 5
