"""A wall clock of the agent that the drill sets, and certificates that a wrong clock does not believe."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.faults.running import which

LIBRARY: Final = "/usr/lib/{}/faketime/libfaketimeMT.so.1"
_MACHINES: Final = ("x86_64-linux-gnu", "aarch64-linux-gnu")
_SHARED: Final = Path("/dev/shm")  # noqa: S108 - the library chooses it, not we
_CERTIFICATE_DAYS: Final = 30
_OPENSSL_S: Final = 20.0
_NOTICED_S: Final = 3.0
"""The library looks at its file once a second, and counts whole seconds."""


@dataclass(frozen=True, slots=True)
class FakedClock:
    """The files that say how far the agent's wall clock is off, and whether it is synchronised."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What makes libfaketime serve a process; monotonic time stays as it is."""
        libraries = [Path(LIBRARY.format(machine)) for machine in _MACHINES]
        found = [str(each) for each in libraries if each.exists()]
        if not found:
            raise FileNotFoundError("libfaketime is missing: apt-get install faketime")
        return {
            "LD_PRELOAD": found[0],
            "FAKETIME_TIMESTAMP_FILE": str(self._offset),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": "1",
            # Its "fix" of waits against the monotonic clock lets Python's lock spin instead of sleep.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }

    @property
    def prefix(self) -> tuple[str, ...]:
        """The command that runs the agent with the trust of this clock."""
        return (sys.executable, "-m", "bench.faults.clock.device", str(self._synchronised))

    def set(self, offset_s: float) -> None:
        """The clock is off by so much from now on (within a second), and nothing vouches for it."""
        self._synchronised.unlink(missing_ok=True)
        self._offset.write_text(f"{offset_s:+.0f}", encoding="ascii")

    def correct(self) -> None:
        """The clock is right from now on, and synchronised once it is surely so."""
        self._offset.write_text("+0", encoding="ascii")
        time.sleep(_NOTICED_S)
        self._synchronised.touch()

    def forget(self, pid: int) -> None:
        """Takes away what the library leaves in shared memory of a process that was killed."""
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
            (_SHARED / name).unlink(missing_ok=True)

    @property
    def _offset(self) -> Path:
        return self.folder / "clock.offset"

    @property
    def _synchronised(self) -> Path:
        return self.folder / "clock.synchronised"


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for loopback that is valid from now for a month, and its key; its own authority."""
    certificate, key = folder / "server.pem", folder / "server.key"
    openssl = which("openssl")
    assert openssl is not None
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", str(_CERTIFICATE_DAYS), "-subj", "/CN=drill"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
        timeout=_OPENSSL_S,
    )
    return certificate, key


def cpu_s(pid: int) -> float:
    """Seconds of processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100
