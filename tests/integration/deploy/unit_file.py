"""Reads a systemd unit as far as the tests need it."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.architecture.tree import ROOT

UNITS = ROOT / "deploy/systemd"
INSTALLED = "/opt/skerry/bin/"
CONFIGURED = "/etc/skerry/"


def setting(unit: Path, name: str) -> list[str]:
    """Every value that the unit gives a setting, in order."""
    lines = unit.read_text(encoding="utf-8").splitlines()
    return [line.split("=", 1)[1] for line in lines if line.startswith(f"{name}=")]


def command(unit: Path, *, bin_dir: Path, configuration: Path) -> list[str]:
    """The unit's command, with the programs of `bin_dir` and another configuration."""
    (line,) = setting(unit, "ExecStart")
    words = [
        word.replace(INSTALLED, f"{bin_dir}/") if word.startswith(INSTALLED) else word
        for word in shlex.split(line)
    ]
    return [str(configuration) if word.startswith(CONFIGURED) else word for word in words]


def relocated(unit: Path, folder: Path, *, bin_dir: Path) -> Path:
    """A copy of the unit that names programs which exist here."""
    text = unit.read_text(encoding="utf-8").replace(INSTALLED, f"{bin_dir}/")
    copy = folder / unit.name
    copy.write_text(text, encoding="utf-8")
    return copy
