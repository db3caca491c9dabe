"""The outbox: what is submitted is stored whole, in order, and kept until the hub's database holds it.

One task owns the files and does all its work on one thread; callers await futures. Cancelling a caller
changes nothing: its work is done or not begun, and no transaction stays open.

Commits (`submit`) are grouped: what is queued when the last transaction has ended goes into the next
one, without a timer. `ready` is the back-pressure: await it before you submit.

What fails, and what then happens (`state().fault` says why while it lasts):
  disk error    the files are closed, opened again, the log is moved into the file (an fsync that failed
                is never believed or repeated), and the group is stored anew unless it is found there
  quota, disk   rows are shed by value (`retention.py`); where nothing may be given up, the futures wait
  damaged file  it is set aside as spool.db.corrupt-TIME, what is sound is salvaged into a new one

For the author of the pipeline: checkpoints.
  A checkpoint holds everything remembered of one stream as of its commit. At boot, `recover().rows` are
  the raw rows beyond the floor; skip a row for a stream whose checkpoint includes it (row.seq <= the
  checkpoint's number), replay it else. A stream without a checkpoint needs all of them.
  The floor moves by rounds only. When `checkpoint_due()`, submit a commit with the checkpoints of all
  streams that changed since the last round and `round=Round.WHOLE`; or, to spread the work, a commit
  with Round.BEGIN, then the checkpoints of every stream that had changed up to it in this and later
  commits, and Round.END with the last of them. A round costs about as many bytes as the rows since the
  last one. Raw rows beyond the floor are neither trimmed nor shed: without rounds the quota fills.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from contract.messages import Watermark
from contract.status import Lane
from edge_agent.errors import StoreError, StoreFull
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.outbox.database import StoreCorrupt
from edge_agent.outbox.files import Files
from edge_agent.outbox.spool import size_of
from edge_agent.outbox.trimming import trim_due
from edge_agent.settings import OutboxSettings
from edge_agent.types import Clock, Commit, LaneState, OutboxState, Recovery, StoredRow

_log = get_logger()
T = TypeVar("T")

_GROUP_BYTES: Final = 512 * 1024
_GROUP_SHARE: Final = 32  # of the quota is a group at most: the log that it goes through counts too
_QUEUE_BYTES: Final = 2 * 1024 * 1024
_MAX_OPERATIONS: Final = 256
_BESIDES: Final = 1024
"""Commits beyond the limit that `ready` keeps: verdicts that had waited for the hub cannot wait again."""
_RETRY_S: Final = (0.05, 0.2, 0.5, 1.0, 2.0)
_FULL_RETRY_S: Final = 0.5
_EXPIRE_EVERY_S: Final = 60.0
_CLOSE_S: Final = 10.0
_MIN_ROUND_BYTES: Final = 256 * 1024
_ROUND_ROWS: Final = 4096


class WhenFull(Enum):
    """What a step does when there is no room."""

    WAIT = "wait"
    RAISE = "raise"


class Outbox:
    """The durable queue; implements `Marks`. Made by `open`; ended by `close`."""

    def __init__(self, files: Files, *, pool: ThreadPoolExecutor, settings: OutboxSettings) -> None:
        self.committed = asyncio.Event()
        """Set whenever rows were stored; whoever waits for rows clears it."""
        self._files = files
        self._pool = pool
        self._max_commits = settings.max_queue_commits
        self._quota_bytes = settings.max_bytes
        self._group_bytes = min(_GROUP_BYTES, settings.max_bytes // _GROUP_SHARE)
        self._queue: deque[tuple[Commit, asyncio.Future[int], int]] = deque()
        self._queued_bytes = 0
        self._operations: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closing = False
        self._fault = ""
        self._full_until = 0.0
        self._commits = 0
        self._head = files.spool.head
        self._owner: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, folder: Path, *, settings: OutboxSettings, clock: Clock) -> Outbox:
        """Opens or makes the outbox in `folder`, in a time that does not depend on the backlog.

        Raises StoreError when the folder cannot be used, or another process holds it.
        """
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outbox")
        files = Files(
            folder,
            quota_bytes=settings.max_bytes,
            max_age_s=settings.raw_max_age_s,
            clock=clock,
        )
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(pool, files.open)
        except BaseException:
            await loop.run_in_executor(pool, files.close)
            pool.shutdown(wait=False)
            raise
        outbox = cls(files, pool=pool, settings=settings)
        outbox._owner = asyncio.create_task(outbox._own(), name="outbox")
        return outbox

    async def watch(self) -> None:
        """Ends when the outbox is closed; raises what ended its task otherwise."""
        assert self._owner is not None
        await asyncio.shield(self._owner)

    async def close(self) -> None:
        """Stores what is queued, within 10 s, and closes the files; futures left over are cancelled.

        Closing a closed outbox does nothing.
        """
        if self._closing:
            return
        self._closing = True
        self._work.set()
        if self._owner is not None:
            await asyncio.wait({self._owner}, timeout=_CLOSE_S)
            self._owner.cancel()
            await asyncio.wait({self._owner})
        self._abandon()
        await asyncio.get_running_loop().run_in_executor(self._pool, self._files.close)
        self._pool.shutdown(wait=False)

    # --- what the pipeline asks -----------------------------------------------------------------

    async def recover(self) -> Recovery:
        """What was known when the agent last stopped; to be called once, before the first submit."""
        return await self._do(self._files.recover)

    def submit(self, commit: Commit) -> asyncio.Future[int]:
        """Queues a commit; the future tells the last `tel` number after it, once it is on the disk.

        Order: as submitted. Raises StoreError when far more is queued than `ready` allows, or the
        outbox is closed.
        """
        if self._closing or (self._owner is not None and self._owner.done()):
            raise StoreError("the outbox is closed")
        if len(self._queue) >= 2 * self._max_commits + _BESIDES:
            raise StoreError("too many commits are queued: await ready() before submit()")
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        size = size_of(commit)
        self._queue.append((commit, future, size))
        self._queued_bytes += size
        if len(self._queue) >= self._max_commits or self._queued_bytes >= _QUEUE_BYTES:
            self._room.clear()
        self._work.set()
        return future

    async def ready(self) -> None:
        """Waits while too many commits or bytes are queued."""
        await self._room.wait()

    def checkpoint_due(self) -> bool:
        """Whether the next commit should begin a round of checkpoints."""
        since = self._head.since_floor
        if self._head.round_at is not None:
            return False
        most = max(_MIN_ROUND_BYTES, min(self._head.round_bytes, self._quota_bytes // 16))
        return since.rows >= _ROUND_ROWS or since.bytes >= min(most, self._quota_bytes // 16)

    # --- what the forwarder asks ----------------------------------------------------------------

    async def read(
        self, lane: Lane, *, after: int, max_bytes: int, max_rows: int
    ) -> list[StoredRow]:
        """The next rows of a lane after `after`, in order, at least one if there is one."""
        ask = partial(self._files.read, lane, after=after, max_bytes=max_bytes, max_rows=max_rows)
        return await self._do(ask)

    async def mark_sent(self, lane: Lane, seq: int) -> None:
        """All up to `seq` was acknowledged by the server."""
        await self._do(partial(self._files.mark_sent, lane, seq))

    async def apply(self, lane: Lane, watermark: Watermark) -> None:
        """Deletes what the hub's database holds, in slices, and declares what nobody has."""
        await self._do(partial(self._files.apply, lane, watermark))

    async def set_aside(self, lane: Lane, seq: int, reason: str) -> None:
        """Moves a row that can never be sent to the dead letters, and leaves a gap record."""
        await self._do(partial(self._files.set_aside, lane, seq, reason))

    async def mark_revised(self, seq: int) -> None:
        """The hub's revisions up to `seq` were given out."""
        await self._do(partial(self._files.mark_revised, seq))

    # --- what everybody may ask -----------------------------------------------------------------

    @property
    def starts(self) -> int:
        """How often an outbox was opened in this folder, this time included."""
        return self._files.starts

    @property
    def revised_to(self) -> int:
        """The highest revision of the hub that was given out; 0 before the first."""
        return self._files.revised_to

    def state(self) -> OutboxState:
        """The outbox now, from memory."""
        head = self._head
        lanes: dict[Lane, LaneState] = {}
        for lane, mark in head.lanes.items():
            held = [entry for kind, entry in head.classes.items() if kind.lane is lane]
            lanes[lane] = LaneState(
                next_seq=mark.next_seq,
                sent=self._files.marks[lane].sent,
                applied=mark.applied,
                first_kept=mark.first or mark.next_seq,
                rows=sum(entry.rows for entry in held),
                readings=sum(entry.readings for entry in held),
                bytes=sum(entry.bytes for entry in held),
                oldest_s=mark.oldest_s,
            )
        shed: dict[str, int] = {}
        for kind, entry in head.classes.items():
            if entry.shed_rows:
                shed[f"{kind}_rows"] = entry.shed_rows
                shed[f"{kind}_readings"] = entry.shed_readings
        return OutboxState(
            epoch=head.epoch,
            lanes=lanes,
            bytes=sum(lane.bytes for lane in lanes.values()),
            quota_bytes=self._quota_bytes,
            shed=shed,
            dead_letters=head.dead_letters,
            commits=self._commits,
            fault=self._fault,
        )

    # --- the owner ------------------------------------------------------------------------------

    async def _do(self, work: Callable[[], T]) -> T:
        if self._closing or (self._owner is not None and self._owner.done()):
            raise StoreError("the outbox is closed")
        if len(self._operations) >= _MAX_OPERATIONS:
            raise StoreError("too many operations wait for the outbox")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._operations.append((work, future))
        self._work.set()
        return await future

    async def _own(self) -> None:
        """Does everything that is asked, in turn: commits first, then one other thing, then tidying."""
        loop = asyncio.get_running_loop()
        expire_at = loop.time() + _EXPIRE_EVERY_S
        try:
            while not (self._closing and not self._queue and not self._operations):
                full_s = self._full_until - loop.time() if self._queue else 0.0
                if self._closing and full_s > 0:
                    return  # nothing that is still queued was promised to anybody
                idle = not (self._operations or trim_due(self._head))
                if idle and not (self._queue and full_s <= 0):
                    await self._idle(full_s if full_s > 0 else expire_at - loop.time())
                if self._queue and self._full_until <= loop.time():
                    await self._store_group()
                if self._operations:
                    await self._serve()
                elif trim_due(self._head):
                    await self._persist(self._files.tidy)
                if loop.time() >= expire_at:
                    more = await self._persist(self._files.expire)
                    expire_at = loop.time() + (0.1 if more else _EXPIRE_EVERY_S)
        finally:
            self._abandon()

    async def _idle(self, timeout_s: float) -> None:
        self._work.clear()
        try:
            async with asyncio.timeout(max(timeout_s, 0.01)):
                await self._work.wait()
        except TimeoutError:
            return

    async def _serve(self) -> None:
        work, future = self._operations.popleft()
        if future.done():
            return
        result = await self._persist(work)
        if not future.done():
            future.set_result(result)

    async def _store_group(self) -> None:
        """Stores what is queued in one transaction; smaller ones where the whole does not fit."""
        group: list[tuple[Commit, asyncio.Future[int], int]] = []
        size = 0
        for entry in self._queue:
            if group and size + entry[2] > self._group_bytes:
                break
            group.append(entry)
            size += entry[2]
        seqs: list[int] | None = None
        while seqs is None:
            commits = [commit for commit, _, _ in group]
            try:
                seqs = await self._persist(
                    partial(self._files.write, commits),
                    already=partial(self._files.found, self._head.number + 1),
                    when_full=WhenFull.RAISE,
                )
            except StoreFull as error:
                if len(group) == 1:
                    # Only a watermark or a round of checkpoints can help: serve those meanwhile.
                    self._faulted(error)
                    self._full_until = asyncio.get_running_loop().time() + _FULL_RETRY_S
                    return
                group = group[: len(group) // 2]
        self._commits += len(group)
        for (_, future, _), seq in zip(group, seqs, strict=True):
            self._queue.popleft()
            if not future.done():
                future.set_result(seq)
        self._queued_bytes = sum(entry[2] for entry in self._queue)
        if len(self._queue) < self._max_commits and self._queued_bytes < _QUEUE_BYTES:
            self._room.set()
        if any(commit.rows for commit, _, _ in group):
            self.committed.set()

    async def _persist(
        self,
        work: Callable[[], T],
        *,
        already: Callable[[], T | None] = lambda: None,
        when_full: WhenFull = WhenFull.WAIT,
    ) -> T:
        """Does the work on the owning thread, through every fault, until it is done."""
        attempt = 0
        while True:
            failure: StoreError
            try:
                result = await self._call(work)
            except StoreFull as error:
                if when_full is WhenFull.RAISE:
                    raise
                failure = error
            except StoreError as error:
                failure = error
            else:
                self._settled()
                return result
            self._faulted(failure)
            await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])
            attempt += 1
            if isinstance(failure, StoreFull):
                continue
            try:
                if isinstance(failure, StoreCorrupt):
                    await self._call(partial(self._files.renew, failure))
                    continue
                await self._call(self._files.reopen)
            except StoreError as error:
                self._faulted(error)
                continue
            found = already()
            if found is not None:
                self._settled()
                return found

    async def _call(self, work: Callable[[], T]) -> T:
        result = await asyncio.get_running_loop().run_in_executor(self._pool, work)
        self._head = self._files.head
        return result

    def _faulted(self, error: StoreError) -> None:
        if not self._fault:
            _log.error(Event.OUTBOX_FAULT, error=str(error), kind=type(error).__name__)
        self._fault = f"{type(error).__name__}: {error}"

    def _settled(self) -> None:
        if self._fault:
            _log.info(Event.OUTBOX_HEALED, was=self._fault)
            self._fault = ""

    def _abandon(self) -> None:
        """Cancels what will never be answered; nobody waits for ever."""
        for _, waiting, _ in self._queue:
            waiting.cancel()
        for _, asking in self._operations:
            asking.cancel()
        self._queue.clear()
        self._operations.clear()
        self._room.set()
