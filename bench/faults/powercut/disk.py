"""A power-cut disk in the hands of a drill or a test: mounted, made to fail, cut off, mounted again.

    async with PowerCutDisk(folder / "agent", mount=home / "data") as disk:
        await disk.set_rules(Rule((Call.SYNC,), "*-wal", error="EIO"))
        await disk.cut()        # what was not synced is gone; whoever had files open gets errors
        await disk.mount()      # again, with what is durable

Leaving the block kills the program and unmounts, whatever happened.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from bench.faults.powercut.control import MAX_LINE_BYTES, Answer, Cut, Request
from bench.faults.powercut.names import NamesBy
from bench.faults.powercut.rules import Rule

REPO: Final = Path(__file__).resolve().parents[3]
_WAIT_S: Final = 15.0
_POLL_S: Final = 0.01


class DiskError(RuntimeError):
    """The disk could not be mounted, or said no; the text says why."""


class PowerCutDisk:
    """One volume: its store outlives cuts. `root` is where programs see it."""

    def __init__(
        self,
        home: Path,
        *,
        root: Path,
        names_by: NamesBy = NamesBy.FOLDER,
        capacity_mib: int = 512,
    ) -> None:
        self.home = home
        self.root = root
        self._names_by = names_by
        self._capacity_mib = capacity_mib
        self._child: subprocess.Popen[bytes] | None = None
        self._socket_folder: tempfile.TemporaryDirectory[str] | None = None

    async def __aenter__(self) -> PowerCutDisk:
        try:
            await self.mount()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def mount(self) -> None:
        """Shows what is durable; returns once programs can use it. Raises DiskError."""
        if self._child is not None:
            raise DiskError(f"the disk at {self.root} is mounted already")
        self._child = await asyncio.to_thread(self._spawn)
        deadline = asyncio.get_running_loop().time() + _WAIT_S
        while not await asyncio.to_thread(os.path.ismount, self.root):
            if self._child.poll() is not None or asyncio.get_running_loop().time() > deadline:
                log = await asyncio.to_thread((self.home / "disk.log").read_text, encoding="utf-8")
                await self.cut()
                raise DiskError(f"the disk at {self.root} did not mount:\n{log[-2000:]}")
            await asyncio.sleep(_POLL_S)

    async def cut(self, *, torn_seed: int | None = None) -> None:
        """The power fails: all that is unsynced is gone, or by `torn_seed` some of it is.

        Programs that use the disk are not killed; they see errors until they are.
        """
        if self._child is None:
            return
        if torn_seed is not None:
            await self._ask(Request(cut=Cut(torn_seed)))
        self._child.kill()
        await asyncio.to_thread(self._child.wait, _WAIT_S)
        self._child = None
        await asyncio.to_thread(_unmount, self.root)

    async def set_rules(self, *rules: Rule) -> None:
        """From now on the disk shows these faults and no others; raises DiskError."""
        answer = await self._ask(Request(rules=rules))
        if answer is None or answer.error:
            raise DiskError(answer.error if answer else "the disk is gone")

    async def state(self) -> Answer:
        """How often it was called, how often each rule took hold, what is unsynced."""
        answer = await self._ask(Request())
        if answer is None:
            raise DiskError(f"the disk at {self.root} is gone")
        return answer

    async def close(self) -> None:
        """Kills the program, unmounts, and forgets the socket; the store stays."""
        await self.cut()
        if self._socket_folder is not None:
            await asyncio.to_thread(self._socket_folder.cleanup)
            self._socket_folder = None

    async def _ask(self, request: Request) -> Answer | None:
        """The answer, or None when the disk died before it could give one."""
        try:
            async with asyncio.timeout(_WAIT_S):
                reader, writer = await asyncio.open_unix_connection(
                    str(self._socket), limit=MAX_LINE_BYTES
                )
                try:
                    writer.write(msgspec.json.encode(request) + b"\n")
                    line = await reader.readline()
                finally:
                    writer.close()
        except ConnectionError:
            return None
        return msgspec.json.decode(line, type=Answer) if line else None

    @property
    def _socket(self) -> Path:
        if self._socket_folder is None:  # of its own: a Unix socket's path has 107 bytes at most
            self._socket_folder = tempfile.TemporaryDirectory(prefix="powercut-")
        return Path(self._socket_folder.name) / "control"

    def _spawn(self) -> subprocess.Popen[bytes]:
        store = self.home / "store"
        store.mkdir(parents=True, exist_ok=True)
        self.root.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "bench.faults.powercut", str(self.root), str(store), str(self._socket),
            "--names-by", self._names_by.value, "--capacity-mib", str(self._capacity_mib),
        ]  # fmt: skip
        with (self.home / "disk.log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=REPO, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip


def _unmount(root: Path) -> None:
    """Lazily: files that a program still has open do not hold it up."""
    command = ["fusermount3", "-u", "-z", str(root)]
    subprocess.run(command, check=False, capture_output=True, timeout=_WAIT_S)
