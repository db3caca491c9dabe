"""The one task that owns the outbox's files: what is asked is done in turn, through every fault.

All work happens on one thread. Commits come first, in groups; then one other thing; then tidying. A
failure is repaired here, by opening the files anew, and what failed is done again until it is done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from edge_agent.errors import StoreError, StoreFull
from edge_agent.observe.events import Event
from edge_agent.outbox.database import StoreCorrupt
from edge_agent.outbox.files import Files
from edge_agent.outbox.notices import Notices
from edge_agent.outbox.queue import CommitQueue, Entry
from edge_agent.outbox.recall import kept_packets
from edge_agent.outbox.trimming import trim_due
from edge_agent.outbox.trouble import FULL_RETRY_S, STUCK_S, Source, Trouble
from edge_agent.settings import OutboxSettings
from edge_agent.types import Commit

T = TypeVar("T")

_GROUP_BYTES: Final = 512 * 1024
_GROUP_SHARE: Final = 32  # of the quota is a group at most: the log that it goes through counts too
_GROUP_COMMITS: Final = 4096
_SLOW_SHARE: Final = 4  # of the memory may wait for a slow disk
_MAX_OPERATIONS: Final = 256
_BESIDES: Final = 1024
"""Commits beyond the limit that `ready` keeps: verdicts that had waited for the hub cannot wait again."""
_EXPIRE_EVERY_S: Final = 60.0
_NOTE_EVERY_S: Final = 1.0
_CLOSE_S: Final = 10.0
_CLOSE_BROKEN_S: Final = 2.0


class Owner:
    """Does the work of an outbox. `run` is its task, started by `start` and ended by `close`."""

    def __init__(self, files: Files, *, pool: ThreadPoolExecutor, settings: OutboxSettings) -> None:
        self.files = files
        self.head = files.spool.head
        """The counters as of the last thing that was done."""
        self.committed = asyncio.Event()
        self.commits = 0
        self.holes = False
        """Whether readings were given up that a restart could not replay: a round is due."""
        self._pool = pool
        self._max_commits = settings.max_queue_commits
        self._slow_bytes = settings.max_memory_bytes // _SLOW_SHARE
        self._max_messages = min(settings.max_unacknowledged, kept_packets(settings.max_bytes))
        self._group_bytes = min(_GROUP_BYTES, settings.max_bytes // _GROUP_SHARE)
        self._group_most = _GROUP_COMMITS
        self._queue = CommitQueue(
            max_bytes=settings.max_memory_bytes, max_messages=self._max_messages
        )
        self._operations: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closing_s: float | None = None
        self._trouble = Trouble()
        self._notices = Notices()
        self._broken: StoreError | None = None
        self._attempted: list[Entry] = []
        self._attempt_number = 0
        self._retry_at = self._store_at = self._serve_at = 0.0
        self._expire_at = self._note_at = 0.0
        self._note_due = False
        self._task: asyncio.Task[None] | None = None

    @property
    def fault(self) -> str:
        """Why the outbox cannot do its work at present, or ""."""
        return self._trouble.fault

    def start(self) -> None:
        """Starts the task."""
        self._task = asyncio.create_task(self.run(), name="outbox")

    async def watch(self) -> None:
        """Ends when the outbox is closed; raises what ended its task otherwise."""
        assert self._task is not None
        await asyncio.shield(self._task)

    async def close(self) -> None:
        """Stores what is queued, within 10 s, and closes the files; futures left over are cancelled."""
        if self._closing_s is not None:
            return
        self._closing_s = asyncio.get_running_loop().time()
        self._work.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_CLOSE_S)
            self._task.cancel()
            await asyncio.wait({self._task})
        self._abandon()
        await asyncio.get_running_loop().run_in_executor(self._pool, self.files.finish)
        self._pool.shutdown(wait=False)

    def submit(self, commit: Commit) -> asyncio.Future[int]:
        """Queues a commit; raises StoreError when far more is queued than `ready` allows."""
        self._refuse_when_closed()
        if len(self._queue) >= 2 * self._max_commits + _BESIDES and not self.fault:
            raise StoreError("too many commits are queued: await ready() before submit()")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        self._queue.add(commit, future, now_s=loop.time())
        self._balance()
        self._work.set()
        return future

    async def ready(self) -> None:
        """Waits while too much is queued for a slow disk; never for one that cannot be written."""
        await self._room.wait()

    async def do(self, work: Callable[[], T]) -> T:
        """Does one thing on the owning thread, in its turn."""
        self._refuse_when_closed()
        if len(self._operations) >= _MAX_OPERATIONS:
            raise StoreError("too many operations wait for the outbox")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._operations.append((work, future))
        self._work.set()
        return await future

    def _refuse_when_closed(self) -> None:
        if self._closing_s is not None or (self._task is not None and self._task.done()):
            raise StoreError("the outbox is closed")

    # --- the task -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Does everything that is asked, in turn: commits first, then one other thing, then tidying."""
        loop = asyncio.get_running_loop()
        self._expire_at = loop.time() + _EXPIRE_EVERY_S
        try:
            while not self._finished(loop.time()):
                if self._broken is None:
                    await self._step(loop.time())
                elif loop.time() >= self._retry_at:
                    await self._repair(self._broken)
                else:
                    await self._idle(self._retry_at - loop.time())
        finally:
            self._abandon()

    def _sound(self) -> bool:
        return self._broken is None

    def _finished(self, now_s: float) -> bool:
        if self._closing_s is None:
            return False
        if self.fault and now_s >= self._closing_s + _CLOSE_BROKEN_S:
            return True  # nothing that is still queued was promised to anybody
        return not len(self._queue) and not self._operations

    async def _step(self, now_s: float) -> None:
        store_in_s = self._store_in_s(now_s)
        served = bool(self._operations) and now_s >= self._serve_at
        if store_in_s is not None and store_in_s <= 0:
            await self._store_group()
        elif not (served or trim_due(self.head) or self._upkeep_in_s(now_s) <= 0):
            waits = [self._upkeep_in_s(now_s), *([] if store_in_s is None else [store_in_s])]
            if self._operations:
                waits.append(self._serve_at - now_s)
            await self._idle(min(waits))
            return
        if not self._sound():
            return
        if served:
            await self._serve()
        elif trim_due(self.head):
            await self._keep_up(self.files.tidy)
        if self._sound() and self._upkeep_in_s(now_s) <= 0:
            await self._look_after(now_s)

    def _store_in_s(self, now_s: float) -> float | None:
        due_s = self._queue.due_in_s(now_s)
        if due_s is None:
            return None
        return max(0.0 if self._closing_s is not None else due_s, self._store_at - now_s)

    def _upkeep_in_s(self, now_s: float) -> float:
        note_s = self._note_at - now_s if self._note_due else _EXPIRE_EVERY_S
        return min(self._expire_at - now_s, note_s)

    async def _look_after(self, now_s: float) -> None:
        if self._note_due and now_s >= self._note_at:
            self._note_due, self._note_at = False, now_s + _NOTE_EVERY_S
            await self._keep_up(self.files.note)
        if self._sound() and now_s >= self._expire_at:
            more = await self._keep_up(self.files.expire)
            self._expire_at = now_s + (0.1 if more else _EXPIRE_EVERY_S)

    async def _idle(self, timeout_s: float) -> None:
        self._work.clear()
        try:
            async with asyncio.timeout(max(timeout_s, 0.01)):
                await self._work.wait()
        except TimeoutError:
            return

    async def _serve(self) -> None:
        work, future = self._operations[0]
        if not future.done():
            try:
                result = await self._call(work)
            except StoreError as error:
                self._serve_at = asyncio.get_running_loop().time() + self._failed(
                    Source.SERVE, error
                )
                return
            if not future.done():
                future.set_result(result)
        self._operations.popleft()
        self._trouble.end(Source.SERVE)
        self._note_due = True

    async def _keep_up(self, work: Callable[[], T]) -> T | None:
        try:
            result = await self._call(work)
        except StoreError as error:
            self._failed(Source.TIDY, error)
            if isinstance(error, StoreFull):
                await asyncio.sleep(FULL_RETRY_S)
            return None
        self._trouble.end(Source.TIDY)
        return result

    async def _store_group(self) -> None:
        """Stores what is queued in one transaction; smaller ones where the whole does not fit."""
        group = self._queue.group(self._group_bytes, most=self._group_most)
        self._attempted, self._attempt_number = group, self.head.number + 1
        try:
            seqs = await self._call(partial(self.files.write, [entry.commit for entry in group]))
        except StoreFull as error:
            self._attempted = []
            if len(group) > 1:
                self._group_most = len(group) // 2
                return
            # Only a watermark, a round of checkpoints or more disk can help: serve those meanwhile.
            self._failed(Source.STORE, error)
            self._store_at = asyncio.get_running_loop().time() + FULL_RETRY_S
            return
        except StoreError as error:
            self._failed(Source.STORE, error)
            return
        self._stored(group, seqs)

    def _stored(self, group: list[Entry], seqs: list[int]) -> None:
        self._attempted = []
        self._group_most = min(2 * self._group_most, _GROUP_COMMITS)
        self.commits += len(group)
        self._note_due = True
        rows = any(entry.commit.rows for entry in group)
        self._queue.stored(group, seqs)
        self._trouble.end(Source.STORE)
        self._balance()
        if rows:
            self.committed.set()

    async def _repair(self, error: StoreError) -> None:
        """Opens the files anew, and finds out whether the last transaction is there."""
        corrupt = isinstance(error, StoreCorrupt)
        try:
            if isinstance(error, StoreCorrupt):
                await self._call(partial(self.files.renew, error))
            else:
                await self._call(self.files.reopen)
        except StoreError as again:
            self._failed(Source.STORE, again)
            if corrupt:
                self._broken = error
            return
        self._broken = None
        group, self._attempted = self._attempted, []
        if group and not corrupt:
            seqs = self.files.found(self._attempt_number)
            if seqs is not None:
                self._stored(group, seqs)

    async def _call(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(STUCK_S, self._no_answer)
        try:
            result = await loop.run_in_executor(self._pool, work)
        finally:
            alarm.cancel()
            self._trouble.end(Source.WAIT)
        self.head = self.files.head
        return result

    def _no_answer(self) -> None:
        error = StoreError(f"the disk has not answered for {STUCK_S:g} s")
        self._trouble.begin(Source.WAIT, error)
        self._balance()

    def _failed(self, source: Source, error: StoreError) -> float:
        delay_s = self._trouble.begin(source, error)
        if not isinstance(error, StoreFull):
            self._broken = error
            self._retry_at = asyncio.get_running_loop().time() + delay_s
        self._balance()
        return delay_s

    def _balance(self) -> None:
        """Opens or closes the door of `ready`, and keeps the bounds of what waits in memory."""
        if self.fault and self._queue.over():
            lost = self._queue.relieve(attempted=self._attempted)
            self.holes = self.holes or bool(lost)
            if lost:
                counts = {str(kind): count for kind, count in lost.items()}
                self._notices.error(Event.OUTBOX_GIVEN_UP, lost=counts, why=self.fault)
        if self.fault or (
            len(self._queue) < self._max_commits
            and self._queue.bytes < self._slow_bytes
            and self._queue.messages < self._max_messages
        ):
            self._room.set()
        else:
            self._room.clear()

    def _abandon(self) -> None:
        """Cancels what will never be answered; nobody waits for ever."""
        self._queue.abandon()
        for _, asking in self._operations:
            asking.cancel()
        self._operations.clear()
        self._room.set()
