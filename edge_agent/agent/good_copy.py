"""Keeps a copy of the configuration that ran well, for the day when a newer one does not."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from edge_agent.settings import note_path

FOLDER: Final = "good"
FILE: Final = "edge-agent.toml"
_ABOUT: Final = "about.json"
_MOST_BYTES: Final = 4 * 1024 * 1024


class _About(msgspec.Struct, frozen=True):
    config: str
    """The path of the configuration that this is a copy of."""
    digest: str


@dataclass(frozen=True, slots=True)
class GoodCopy:
    """A configuration that ran well, whole as it was kept."""

    path: Path
    digest: str


def digest_of(content: bytes) -> str:
    """Names a content."""
    return hashlib.sha256(content).hexdigest()


def read_configuration(config: Path) -> bytes:
    """The bytes of the file, at most 4 MiB; none where it cannot be read."""
    try:
        with config.open("rb") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return b""


def find_good_copy(data_dir: Path, config: Path) -> GoodCopy | None:
    """The copy of this configuration in that data folder, if there is one and it is whole."""
    folder = data_dir / FOLDER
    try:
        about = msgspec.json.decode((folder / _ABOUT).read_bytes(), type=_About)
        content = (folder / FILE).read_bytes()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if about.config != str(config.absolute()) or about.digest != digest_of(content):
        return None
    return GoodCopy(folder / FILE, about.digest)


def keep_good_copy(data_dir: Path, config: Path, content: bytes) -> None:
    """Replaces the copy, durably; raises OSError.

    A kill in between leaves a copy that does not fit its description, which then counts as none.
    """
    folder = data_dir / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = _About(str(config.absolute()), digest_of(content))
    _replace(folder / FILE, content)
    _replace(folder / _ABOUT, msgspec.json.encode(about))
    with suppress(OSError):  # often the configuration's folder is not ours to write in
        note = note_path(config)
        if not note.exists() or note.read_text(encoding="utf-8") != str(data_dir):
            note.write_text(str(data_dir), encoding="utf-8")


def _replace(target: Path, content: bytes) -> None:
    fresh = target.with_name(f"{target.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
