"""Kills a command at every system call that touches the given files, one run for each.

The kernel delivers the signal when the call begins, so that point n leaves the disk as call n-1 had left it.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CALLS: Final = (
    "openat", "pwrite64", "write", "fsync", "fdatasync", "ftruncate", "fallocate", "rename",
    "renameat", "renameat2", "link", "unlink", "unlinkat", "mkdir",
)  # fmt: skip
_RUN_S: Final = 30.0
_LINE = re.compile(r"^(\d+) +(\w+)\(")


@dataclass(frozen=True, slots=True, order=True)
class CrashPoint:
    """The n-th call of a kind on the watched files."""

    call: str
    number: int

    def __str__(self) -> str:
        return f"{self.call} {self.number}"


async def crash_points(
    command: Sequence[str], *, paths: Sequence[Path], scratch: Path
) -> list[CrashPoint]:
    """Every point of a run that nobody disturbs; raises RuntimeError when it fails."""
    log = scratch / "strace.log"
    watched = _strace(paths, f"trace={','.join(CALLS)}", log)
    code, _, err = await _finish([*watched, *command])
    if code != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {code}: {err.decode()[-500:]}")
    lines = (
        await asyncio.to_thread(log.read_text, encoding="utf-8", errors="replace")
    ).splitlines()
    counts = Counter(match.groups() for line in lines if (match := _LINE.match(line)))
    most: dict[str, int] = {}
    for (_, call), count in counts.items():  # strace counts each thread's calls apart
        most[call] = max(most.get(call, 0), count)
    return [
        CrashPoint(call, n) for call, count in sorted(most.items()) for n in range(1, count + 1)
    ]


async def run_to(
    point: CrashPoint, command: Sequence[str], *, paths: Sequence[Path]
) -> tuple[bool, list[str]]:
    """Whether the command was killed at the point, and the lines that it had written before."""
    inject = f"inject={point.call}:signal=SIGKILL:when={point.number}"
    watched = _strace(paths, f"trace={point.call}", Path("/dev/null"))
    code, out, err = await _finish([*watched, "-e", inject, *command])
    if code not in (0, -signal.SIGKILL, 128 + signal.SIGKILL):
        raise RuntimeError(f"{point}: ended with {code}: {err.decode()[-500:]}")
    return code != 0, out.decode().splitlines()


def _strace(paths: Sequence[Path], trace: str, log: Path) -> list[str]:
    watched = [word for path in paths for word in ("-P", str(path))]
    return ["strace", "-f", "-qq", "-o", str(log), *watched, "-e", trace]


async def _finish(command: Sequence[str]) -> tuple[int, bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), _RUN_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, out, err
