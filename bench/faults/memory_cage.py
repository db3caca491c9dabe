"""A memory cgroup of our own, version 1 or 2: tightened until the kernel kills what is in it."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
FREE_BYTES: Final = 4 * 1024**3
_STEP_BYTES: Final = 256 * 1024
_STEPS: Final = 2048


class MemoryCage:
    """A cgroup for the length of a `with`; `prefix` starts a command in it. Needs root.

    Raises OSError where the machine has no memory controller that we may use.
    """

    def __init__(self, name: str) -> None:
        self._old = (ROOT / "memory").is_dir()
        self._folder = (ROOT / "memory" if self._old else ROOT) / f"{name}-{os.getpid()}"
        self._limit = "memory.limit_in_bytes" if self._old else "memory.max"
        self._usage = "memory.usage_in_bytes" if self._old else "memory.current"
        self._events = "memory.oom_control" if self._old else "memory.events"

    def __enter__(self) -> MemoryCage:
        if not self._old:
            (ROOT / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
        self._folder.mkdir()
        self.loosen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.rmdir()

    @property
    def prefix(self) -> tuple[str, ...]:
        """Put before a command, it makes the command's process a member, pid unchanged."""
        join = f'echo $$ > {self._folder}/cgroup.procs && exec "$@"'
        return ("sh", "-c", join, "sh")

    @property
    def kills(self) -> int:
        """How many members the kernel has killed for want of memory."""
        lines = (self._folder / self._events).read_text(encoding="ascii").splitlines()
        counts = dict(line.split() for line in lines)
        return int(counts["oom_kill"])

    def loosen(self) -> None:
        """As much memory as anybody may want."""
        self._write(FREE_BYTES)

    def tighten(self) -> None:
        """No more memory than is in use, down to what the kernel can take back: the next need is fatal."""
        for _ in range(_STEPS):
            used = int((self._folder / self._usage).read_text(encoding="ascii"))
            try:
                self._write(max(used - _STEP_BYTES, _STEP_BYTES))
            except OSError:
                return  # nothing more can be taken back
            if self.kills:
                return

    def _write(self, limit_bytes: int) -> None:
        (self._folder / self._limit).write_text(str(limit_bytes), encoding="ascii")
