"""Opens the outbox, again and again until the disk lets it, and says why it does not yet."""

from __future__ import annotations

import asyncio
from typing import Final

from edge_agent.agent.safe_mode import Spool
from edge_agent.errors import ConfigurationError, StoreError
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.outbox.anew import set_all_aside
from edge_agent.outbox.database import StoreCorrupt
from edge_agent.outbox.store import Outbox
from edge_agent.settings import Settings
from edge_agent.types import Clock

RETRY_S: Final = 2.0
ANSWER_S: Final = 10.0
"""A disk that takes longer to answer is treated as one that does not."""


class Opening:
    """`first` is the ordinary start; when it gives None, `why` says why, and `later` goes on trying.

    `cancel` before the loop ends; an outbox that was opened meanwhile is closed.
    """

    def __init__(self, settings: Settings, *, clock: Clock, spool: Spool = Spool.KEEP) -> None:
        """Nothing is opened yet; `spool` says what becomes of the file that is there."""
        self._settings = settings
        self._data_dir = settings.data_dir
        self._clock = clock
        self._spool = spool
        self._task: asyncio.Task[Outbox] | None = None
        self._log = get_logger(device=settings.device.name)
        self.why = ""

    async def first(self, *, timeout_s: float = ANSWER_S) -> Outbox | None:
        """The outbox, or None while it cannot be opened.

        Raises ConfigurationError where only a person can help: the data folder cannot be one.
        """
        self._task = asyncio.create_task(self._attempt(), name="open-outbox")
        await asyncio.wait({self._task}, timeout=timeout_s)
        if not self._task.done():
            self._failed(f"the disk has not answered for {timeout_s:g} s")
            return None
        return self._outcome()

    async def later(self) -> Outbox:
        """The outbox, as soon as it can be opened; tries every two seconds."""
        while True:
            if self._task is None:
                self._task = asyncio.create_task(self._attempt(), name="open-outbox")
            await asyncio.wait({self._task})
            outbox = self._outcome()
            if outbox is not None:
                return outbox
            await asyncio.sleep(RETRY_S)

    async def cancel(self) -> None:
        """Gives up; does not wait for a disk that does not answer."""
        task, self._task = self._task, None
        if task is not None and task.done() and not task.cancelled() and not task.exception():
            await task.result().close()
        elif task is not None:
            task.cancel()

    def _outcome(self) -> Outbox | None:
        task, self._task = self._task, None
        assert task is not None
        try:
            return task.result()
        except StoreCorrupt as error:
            self._go_further(str(error))
            self._failed(str(error))
        except (StoreError, OSError) as error:
            self._failed(str(error))
        return None

    def _go_further(self, why: str) -> None:
        """Trying again mends no file that stays damaged: salvage it, and then begin without it."""
        self._spool = Spool.SALVAGE if self._spool is Spool.KEEP else Spool.EMPTY
        if self._spool is Spool.EMPTY:
            self._log.error(Event.SAFE_MODE, replaced=["outbox"], why=[why])

    def _failed(self, why: str) -> None:
        self.why = why
        self._log.error(Event.OUTBOX_UNAVAILABLE, why=why, data_dir=str(self._data_dir))

    async def _attempt(self) -> Outbox:
        try:
            await asyncio.to_thread(self._data_dir.mkdir, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ConfigurationError(
                f"device.data_dir: {self._data_dir} is a file, or lies below one: {error.strerror}; "
                "choose a folder that this user may write"
            ) from error
        folder = self._data_dir / "outbox"
        if self._spool is Spool.EMPTY:
            await asyncio.to_thread(set_all_aside, folder, now_s=self._clock.wall_s())
            self._spool = Spool.KEEP
        return await Outbox.open(
            folder,
            settings=self._settings.outbox,
            clock=self._clock,
            renew="safe mode" if self._spool is Spool.SALVAGE else "",
        )
