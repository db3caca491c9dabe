"""One process of a rehearsal: started, frozen, killed and stopped by its own pid; its output is kept."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from edge_agent.errors import EdgeError
from edge_agent.settings.inheritance import environment_without_service

_POLL_S: Final = 0.02
_STOP_S: Final = 8.0
_MAX_LOG_BYTES: Final = 16 * 1024 * 1024
_TAIL_LINES: Final = 12


class ChildFailed(EdgeError):
    """A process of the rehearsal did not come up; the text ends with what it said last."""


class Child:
    """A process that dies with us. Its output goes to a file through us, so that no limit of it applies there."""

    def __init__(
        self,
        name: str,
        *,
        command: Sequence[str],
        home: Path,
        ready: Callable[[], Awaitable[bool]],
        start_timeout_s: float = 60.0,
    ) -> None:
        self.name = name
        self.home = home
        self.starts = 0
        home.mkdir(parents=True, exist_ok=True)
        self._command = list(command)
        self._ready = ready
        self._start_timeout_s = start_timeout_s
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._logged = 0
        self._frozen = False

    @property
    def pid(self) -> int:
        """The process id; raises ChildFailed when it is not running."""
        if self._process is None or self._process.returncode is not None:
            raise ChildFailed(f"{self.name} is not running{self.said()}")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive (a frozen one is)."""
        return self._process is not None and self._process.returncode is None

    def said(self) -> str:
        """The last lines of its output, as the end of an error's text."""
        return ("; it said last:\n" + "\n".join(self._tail)) if self._tail else ""

    async def start(self) -> float:
        """Starts the process and returns once it is ready, with the seconds that took; raises ChildFailed."""
        assert self._process is None
        begin_s = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(
            *python("guard"),
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env=environment_without_service(),
        )
        self.starts += 1
        self._tail.clear()
        self._reader = asyncio.create_task(self._read(), name=f"output of {self.name}")
        try:
            async with asyncio.timeout(self._start_timeout_s):
                while not await self._ready():
                    if not self.running:
                        await self._ended()
                        raise ChildFailed(f"{self.name} ended at its start{self.said()}")
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            await self.kill()
            limit = f"{self._start_timeout_s:g} s"
            raise ChildFailed(f"{self.name} is not ready after {limit}{self.said()}") from None
        return time.monotonic() - begin_s

    async def kill(self) -> None:
        """SIGKILL: no goodbye, no flush; returns once the process is gone."""
        self._signal(signal.SIGKILL)
        self._frozen = False
        await self._ended()

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL if that takes too long; returns once the process is gone."""
        self.thaw()
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_S):
                await self._ended()
        except TimeoutError:
            await self.kill()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, until `thaw`."""
        self._signal(signal.SIGSTOP)
        self._frozen = True

    def thaw(self) -> None:
        """SIGCONT; without a preceding `freeze` it does nothing."""
        if self._frozen:
            self._signal(signal.SIGCONT)
        self._frozen = False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _ended(self) -> None:
        if self._process is not None:
            await self._process.wait()
        if self._reader is not None:
            await asyncio.wait({self._reader}, timeout=1.0)
            self._reader.cancel()
            self._reader = None
        self._process = None

    async def _read(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        path = self.home / f"{self.name}.log"
        while data := await process.stdout.read(64 * 1024):
            lines = data.decode("utf-8", "replace").splitlines()
            self._tail.extend(line[:300] for line in lines[-_TAIL_LINES:])
            if self._logged < _MAX_LOG_BYTES:
                self._logged += len(data)
                await asyncio.to_thread(_append, path, data)


def python(module: str, *arguments: object) -> list[str]:
    """The command that runs a module of this room with this very interpreter and installation."""
    return [sys.executable, "-P", "-m", f"edge_agent.rehearse.{module}", *map(str, arguments)]


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as log:
        log.write(data)
