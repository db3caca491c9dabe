"""The outbox: what is submitted is stored whole, in order, and kept until the hub's database holds it.

One task owns the files and does all its work on one thread; callers await futures. Cancelling a caller
changes nothing: its work is done or not begun, and no transaction stays open.

Commits (`submit`) are grouped: what is queued when the last transaction has ended goes into the next
one, without a timer. `ready` is the back-pressure: await it before you submit.

What fails, and what then happens (`state().fault` says why while it lasts):
  slow disk     groups grow; `ready` waits
  disk error    the files are closed, opened again, the log is moved into the file (an fsync that failed
                is never believed or repeated), and the group is stored anew unless it is found there
  quota, disk   rows are shed by value (`retention.py`); a full disk is taken for the quota
  full
  damaged file  it is set aside as spool.db.corrupt-TIME, what is sound is salvaged into a new one
While a fault lasts `ready` does not wait: commits stay in memory, and beyond its bounds the oldest are
given up by value and counted (`queue.py`).

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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from contract.messages import Watermark
from contract.status import Lane
from edge_agent.outbox.budgets import budgets_of
from edge_agent.outbox.files import Files
from edge_agent.outbox.glance import outbox_state
from edge_agent.outbox.inspection import inspection
from edge_agent.outbox.owner import Owner
from edge_agent.settings import OutboxSettings
from edge_agent.types import Clock, Commit, JsonObject, OutboxState, Recovery, Round, StoredRow

_MIN_ROUND_BYTES: Final = 256 * 1024
_ROUND_ROWS: Final = 4096


class Outbox:
    """The durable queue; implements `Marks`. Made by `open`; ended by `close`."""

    def __init__(self, owner: Owner, *, quota_bytes: int) -> None:
        self._owner = owner
        self._files = owner.files
        self._quota_bytes = quota_bytes
        self.committed = owner.committed
        """Set whenever rows were stored; whoever waits for rows clears it."""

    @classmethod
    async def open(
        cls, folder: Path, *, settings: OutboxSettings, clock: Clock, renew: str = ""
    ) -> Outbox:
        """Opens or makes the outbox in `folder`, in a time that does not depend on the backlog.

        With a reason to `renew`, its spool is set aside first, and what is sound in it taken over.
        Raises StoreError when the folder cannot be used, or another process holds it.
        """
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outbox")
        files = Files(
            folder,
            quota_bytes=settings.max_bytes,
            budgets=budgets_of(settings.budgets),
            clock=clock,
        )
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(pool, partial(files.open, renew=renew))
        except BaseException:
            await loop.run_in_executor(pool, files.close)
            pool.shutdown(wait=False)
            raise
        owner = Owner(files, pool=pool, settings=settings)
        owner.start()
        return cls(owner, quota_bytes=settings.max_bytes)

    async def watch(self) -> None:
        """Ends when the outbox is closed; raises what ended its task otherwise."""
        await self._owner.watch()

    async def close(self) -> None:
        """Stores what is queued, within 10 s, and closes the files; futures left over are cancelled.

        Closing a closed outbox does nothing.
        """
        await self._owner.close()

    # --- what the pipeline asks -----------------------------------------------------------------

    async def recover(self) -> Recovery:
        """What was known when the agent last stopped; to be called once, before the first submit."""
        return await self._owner.do(self._files.recover)

    def submit(self, commit: Commit) -> asyncio.Future[int]:
        """Queues a commit; the future tells the last `tel` number after it, once it is on the disk.

        Order: as submitted. Raises StoreError when far more is queued than `ready` allows, or the
        outbox is closed.
        """
        future = self._owner.submit(commit)
        if commit.round in (Round.BEGIN, Round.WHOLE):
            self._owner.holes = False
        return future

    async def ready(self) -> None:
        """Waits while too much is queued for a slow disk; never for one that cannot be written."""
        await self._owner.ready()

    def checkpoint_due(self) -> bool:
        """Whether the next commit should begin a round of checkpoints."""
        head = self._owner.head
        since = head.since_floor
        if head.round_at is not None:
            return False
        if self._owner.holes and not self._owner.fault:
            return True  # readings that were given up cannot be replayed at the next start
        limit = min(self._quota_bytes, self._files.limit_bytes) // 16
        most = max(_MIN_ROUND_BYTES, min(head.round_bytes, self._quota_bytes // 16))
        return since.rows >= _ROUND_ROWS or since.bytes >= min(most, limit)

    # --- what the forwarder asks ----------------------------------------------------------------

    async def read(
        self, lane: Lane, *, after: int, max_bytes: int, max_rows: int
    ) -> list[StoredRow]:
        """The next rows of a lane after `after`, in order, at least one if there is one."""
        ask = partial(self._files.read, lane, after=after, max_bytes=max_bytes, max_rows=max_rows)
        return await self._owner.do(ask)

    async def mark_sent(self, lane: Lane, seq: int) -> None:
        """All up to `seq` was acknowledged by the server."""
        await self._owner.do(partial(self._files.mark_sent, lane, seq))

    async def apply(self, lane: Lane, watermark: Watermark) -> None:
        """Deletes what the hub's database holds, in slices, and declares what nobody has."""
        await self._owner.do(partial(self._files.apply, lane, watermark))

    async def set_aside(self, lane: Lane, seq: int, reason: str) -> None:
        """Moves a row that can never be sent to the dead letters, and leaves a gap record."""
        await self._owner.do(partial(self._files.set_aside, lane, seq, reason))

    async def mark_revised(self, seq: int) -> None:
        """The hub's revisions up to `seq` were given out."""
        await self._owner.do(partial(self._files.mark_revised, seq))

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
        return outbox_state(
            self._owner.head,
            sent={lane: mark.sent for lane, mark in self._files.marks.items()},
            quota_bytes=self._quota_bytes,
            commits=self._owner.commits,
            fault=self._owner.fault,
        )

    async def inspect(self) -> JsonObject:
        """The outbox for a person who looks: with its classes, budgets and dead letters."""
        dead = await self._owner.do(self._files.dead_letters)
        return inspection(
            self._owner.head,
            self.state(),
            dead,
            budgets=self._files.budgets,
            limit_bytes=self._files.limit_bytes,
            now_s=self._files.wall_s(),
        )
