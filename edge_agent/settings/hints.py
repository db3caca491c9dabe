"""Where the data folder may be when the configuration cannot be read: likely places, best first."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from edge_agent.settings.loading import ENV_PREFIX
from edge_agent.settings.service import read_service_environment
from edge_agent.settings.tables import DeviceSettings

_KEY = "data_dir"
_LINE = re.compile(rf"^\s*{_KEY}\s*=\s*[\"']([^\"'\n]{{1,4096}})[\"']", re.MULTILINE)
_MOST_BYTES = 4 * 1024 * 1024


def data_dir_hints(config: Path) -> tuple[Path, ...]:
    """The environment's word, what is left of the file, systemd's state folder, the note, the default.

    Reads at most 4 MiB of the file, whatever it is; never raises for a file that cannot be read.
    """
    said = os.environ.get(f"{ENV_PREFIX}DEVICE__{_KEY.upper()}")
    found = [said, _in_file(config), read_service_environment().state_folder, _noted(config)]
    default = DeviceSettings.model_fields[_KEY].default
    base = config.absolute().parent
    places = [base / Path(place) for place in [*found, default] if place]
    return tuple(dict.fromkeys(places))


def note_path(config: Path) -> Path:
    """A file beside the configuration that remembers its data folder; absent where none can be written."""
    return config.with_name(f".{config.name}.{_KEY}")


def _in_file(config: Path) -> str | None:
    text = _text(config)
    try:
        device = tomllib.loads(text).get("device")
    except (ValueError, RecursionError):
        found = _LINE.search(text)
        return found[1] if found else None
    place = device.get(_KEY) if isinstance(device, dict) else None
    return place if isinstance(place, str) else None


def _noted(config: Path) -> str | None:
    return _text(note_path(config)).strip() or None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace").replace("\0", "")
    except OSError:
        return ""
