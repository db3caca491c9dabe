"""Where the running agent listens for the command line, and how the command line finds it.

The socket lies in the data folder. Where that cannot hold one (read-only, full, another's), it lies in
`/run/skerry` where the service manager made that (`RuntimeDirectory=skerry`), else in a folder of its own
below the system's temporary folder. Nobody else may own or read that folder.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from edge_agent.observe.control import AgentNotRunning, ask_agent
from edge_agent.settings import Settings
from edge_agent.types import JsonObject

FILE = "agent.sock"
RUNTIME = Path("/run/skerry")


def socket_path(settings: Settings) -> Path:
    """The Unix socket in the agent's data folder."""
    return settings.data_dir / FILE


def stand_in_paths(settings: Settings) -> tuple[Path, ...]:
    """The Unix sockets of an agent whose data folder cannot hold one, the preferred first."""
    name = hashlib.sha256(os.fsencode(settings.data_dir)).hexdigest()[:16]
    return RUNTIME / f"{name}.sock", Path(tempfile.gettempdir(), f"skerry-{name}", FILE)


def make_stand_in(settings: Settings) -> Path | None:
    """The first stand-in whose folder is ours alone, made where it may be; None where there is none."""
    for path in stand_in_paths(settings):
        with suppress(OSError):
            if path.parent != RUNTIME:
                path.parent.mkdir(mode=0o700, exist_ok=True)
            if _owner(path.parent) == os.geteuid():
                return path
    return None


def remove_stand_in(path: Path) -> None:
    """Removes the folder that was made for it, once it is empty."""
    if path.parent != RUNTIME:
        with suppress(OSError):
            path.parent.rmdir()


def ask_running_agent(settings: Settings, command: str, args: JsonObject | None = None) -> object:
    """The result of one command of the agent that runs with this configuration.

    Raises AgentNotRunning when there is none, CommandFailed when it says no.
    """
    try:
        return ask_agent(socket_path(settings), command, args)
    except AgentNotRunning:
        for stand_in in stand_in_paths(settings):
            if _trusted(stand_in.parent, settings):
                with suppress(AgentNotRunning):
                    return ask_agent(stand_in, command, args)
        raise


def _trusted(folder: Path, settings: Settings) -> bool:
    """Whether only root, the service, this user, or the owner of the data folder can have made it."""
    owner = _owner(folder)
    if folder == RUNTIME:
        return owner is not None  # only root makes folders in /run
    trusted = {0, os.geteuid()}
    with suppress(OSError):
        trusted.add(settings.data_dir.stat().st_uid)
    return owner in trusted


def _owner(folder: Path) -> int | None:
    """Who owns a folder that nobody else may use; None where it is none."""
    try:
        found = folder.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
    return found.st_uid if private else None
