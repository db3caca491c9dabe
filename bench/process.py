"""One server process: started, proven ready, frozen, killed and started again by its own pid."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

_POLL_S = 0.02
_STOP_S = 10.0


class ServerError(RuntimeError):
    """A server did not start, or died; the text ends with the tail of its log."""


class ServerProcess:
    """A child process whose `start` returns only after a real client got an answer.

    Every method that waits does so off the event loop and against a deadline. The process has a
    session of its own: Ctrl-C at a terminal reaches its owner, who then stops it in order.
    """

    def __init__(
        self,
        name: str,
        *,
        command: Sequence[str],
        log_path: Path,
        probe: Callable[[], Awaitable[bool]],
        start_timeout_s: float = 15.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` is added to the one of this process."""
        self.name = name
        self.log_path = log_path
        self._command = list(command)
        self._probe = probe
        self._start_timeout_s = start_timeout_s
        self._environment = dict(environment or {})
        self._child: subprocess.Popen[bytes] | None = None
        self._frozen = False

    @property
    def pid(self) -> int:
        """The process id; raises ServerError when the server is not running."""
        if self._child is None:
            raise ServerError(f"{self.name} is not running")
        return self._child.pid

    def is_running(self) -> bool:
        """Whether the process is alive (a frozen one is)."""
        return self._child is not None and self._child.poll() is None

    async def start(self) -> None:
        """Starts the process and returns once it answers; raises ServerError if it does not."""
        await self.spawn()
        try:
            async with asyncio.timeout(self._start_timeout_s):
                while not await self._probe():
                    if not self.is_running():
                        raise ServerError(f"{self.name} ended at start:\n{await self.log_tail()}")
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            tail = await self.log_tail()
            await self.kill()
            message = f"{self.name} gave no answer within {self._start_timeout_s:g} s:\n{tail}"
            raise ServerError(message) from None
        except BaseException:
            await self.kill()
            raise

    async def stop(self, *, timeout_s: float = _STOP_S) -> None:
        """SIGTERM, then SIGKILL after `timeout_s`; returns once the process is reaped."""
        if self._child is None:
            return
        self.thaw()
        self._signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._child.wait, timeout_s)
        except subprocess.TimeoutExpired:
            await self.kill()
        self._child = None

    async def kill(self) -> None:
        """SIGKILL: no goodbye, no flush; returns once the process is reaped."""
        if self._child is None:
            return
        self._signal(signal.SIGKILL)
        await asyncio.to_thread(self._child.wait, _STOP_S)
        self._child = None
        self._frozen = False

    async def ended(self, *, timeout_s: float = _STOP_S) -> int:
        """The exit code (minus the signal's number) once the process has ended by itself; reaped.

        Raises TimeoutError when it lives on.
        """
        if self._child is None:
            raise ServerError(f"{self.name} is not running")
        try:
            code = await asyncio.to_thread(self._child.wait, timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} did not end within {timeout_s:g} s") from None
        self._child = None
        self._frozen = False
        return code

    async def spawn(self) -> None:
        """Starts the process and returns at once, whether or not it will ever answer."""
        if self.is_running():
            raise ServerError(f"{self.name} runs already (pid {self.pid})")
        self._child = await asyncio.to_thread(self._spawn)

    async def answers(self) -> bool:
        """Whether a real client gets an answer now."""
        return self.is_running() and await self._probe()

    async def restart(self) -> None:
        """Stops the process if it runs, and starts it on the same ports and storage."""
        await self.stop()
        await self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, until `thaw`."""
        self._signal(signal.SIGSTOP)
        self._frozen = True

    def thaw(self) -> None:
        """SIGCONT; without a preceding `freeze` it does nothing."""
        if self._frozen:
            self._signal(signal.SIGCONT)
        self._frozen = False

    async def log_tail(self, *, lines: int = 20) -> str:
        """The last lines of the server's log."""
        text = await asyncio.to_thread(self.log_path.read_text, encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **self._environment},
            )

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)
