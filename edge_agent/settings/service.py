"""What the service manager tells the agent in its environment: where to report, how often, where state lies."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ServiceEnvironment:
    """Read once, at the start; all of it is absent where no service manager started the agent."""

    notify_socket: str | None = None
    """Where readiness and progress are to be reported."""
    watchdog_s: float = 0.0
    """The agent is killed when it reports no progress for so long; 0: nobody watches."""
    state_folder: Path | None = None
    """The folder of `StateDirectory=`."""


def read_service_environment() -> ServiceEnvironment:
    """What systemd set; a variable that makes no sense counts as absent."""
    folders = os.environ.get("STATE_DIRECTORY", "")
    return ServiceEnvironment(
        notify_socket=os.environ.get("NOTIFY_SOCKET") or None,
        watchdog_s=_watchdog_s(),
        state_folder=Path(folders.split(":")[0]) if folders else None,
    )


def _watchdog_s() -> float:
    process = os.environ.get("WATCHDOG_PID", "")
    if process and process != str(os.getpid()):
        return 0.0
    micros = os.environ.get("WATCHDOG_USEC", "")
    return int(micros) / 1e6 if micros.isdecimal() and len(micros) < 16 else 0.0
