"""Brings the rows of the outbox to the hub's streams: every row, in order per lane, at least once.

A message whose acknowledgement does not come is *unknown*: it goes again with the same id. One that is
refused for good is halved until the single row is found, which is set aside. A row that the hub lacks
although it was acknowledged goes again with a new id. Nothing is ever deleted here: that is the
watermark's doing.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from contract.encoding import MAX_MESSAGE_BYTES
from contract.messages import LaneReport, Watermark
from contract.status import Lane
from edge_agent.errors import Forbidden, LinkDown, LinkError, LinkTimeout, NoResponders, Refused
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.outbox.bucket import TokenBucket
from edge_agent.outbox.cursor import Cursor, plausible
from edge_agent.outbox.packing import READ_BYTES, READ_ROWS, Message, Sender, pack, run_of
from edge_agent.outbox.yielding import Yielding
from edge_agent.settings import HubSettings
from edge_agent.types import HubLink, Marks, StoredRow

_log = get_logger()

MAX_IN_FLIGHT: Final = 4
_DOWN_POLL_S: Final = 0.25
_IDLE_S: Final = 1.0
_PAUSES_S: Final = (0.5, 1.0, 2.0, 5.0)
_FULL_PAUSE_S: Final = 5.0
_STALLED_S: Final = 20.0
"""So long may messages of a lane fail over a sound connection before the log says so as a warning."""
_PACK_IN_THREAD_BYTES: Final = 16 * 1024
_LATENESS_EVERY_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class _Outcome:
    message: Message
    error: LinkError | None


class Forwarder:
    """Sends what the outbox holds. `run` is its one task.

    Order: per lane by number, at most four messages in flight. Duplicates: possible, the hub knows them.
    Cancellation of `run`: messages in flight stay unknown and go again at the next start.
    """

    def __init__(
        self,
        marks: Marks,
        link: HubLink,
        *,
        device: str,
        settings: HubSettings,
        wake: asyncio.Event,
    ) -> None:
        self._marks = marks
        self._link = link
        self._device = device
        self._settings = settings
        self._wake = wake
        self._epoch = ""
        self._cursors: dict[Lane, Cursor] = {}
        self._moved: set[Lane] = set()
        self._in_flight: set[asyncio.Task[_Outcome]] = set()
        self._connection = 0
        self._drain_from_s = 0.0
        self._bucket = TokenBucket(bytes_per_s=settings.drain_bytes_per_s, now_s=0.0)
        self._yielding = Yielding()
        self._measuring: asyncio.TimerHandle | None = None
        self._random = secrets.SystemRandom()
        self.messages = 0
        self.resent = 0

    def draining(self) -> bool:
        """Whether the outbox holds rows that the hub's database does not."""
        lanes = self._marks.state().lanes.values()
        return any(lane.next_seq - 1 > lane.applied for lane in lanes)

    async def run(self) -> None:
        """Forwards for ever."""
        try:
            while True:
                await self._step()
        finally:
            if self._measuring is not None:
                self._measuring.cancel()
            for task in self._in_flight:
                task.cancel()
            await asyncio.gather(*self._in_flight, return_exceptions=True)
            self._in_flight.clear()

    async def on_watermarks(
        self, watermarks: Mapping[str, Watermark], *, reported: Mapping[str, LaneReport]
    ) -> None:
        """Takes what the hub's database holds; `reported` is what the device had said when it asked."""
        epoch = self._marks.state().epoch
        for lane in Lane:
            watermark, report = watermarks.get(lane.value), reported.get(lane.value)
            if watermark is None or watermark.epoch != epoch:
                continue
            if not plausible(watermark, next_seq=self._marks.state().lanes[lane].next_seq):
                _log.warning(Event.OUTBOX_WATERMARK_IGNORED, lane=lane, applied=watermark.applied)
                continue
            await self._marks.apply(lane, watermark)
            cursor = self._cursor(lane)
            cursor.applied(self._marks.state().lanes[lane].applied)
            if report is not None and report.epoch == epoch:
                cursor.repair(watermark, reported_sent=min(report.sent, cursor.sent))
        self._wake.set()

    # --- one step -------------------------------------------------------------------------------

    async def _step(self) -> None:
        self._wake.clear()
        now_s = asyncio.get_running_loop().time()
        self._follow_connection(now_s)
        message = None
        if self._connection and len(self._in_flight) < MAX_IN_FLIGHT:
            message = await self._next(now_s)
        if message is not None:
            self._start(message)
            await asyncio.sleep(0)
            await self._collect()
            return
        await self._wait(self._pause_s(now_s))

    def _follow_connection(self, now_s: float) -> None:
        connection = self._link.state().connection
        if connection == self._connection:
            return
        self._connection = connection
        if connection:
            self._drain_from_s = now_s + self._random.uniform(0, self._settings.drain_jitter_s)
            for cursor in self._cursors.values():
                cursor.paused_until_s = 0.0

    async def _next(self, now_s: float) -> Message | None:
        """The next message that may go, of the first lane that has one."""
        for lane in Lane:
            cursor = self._cursor(lane)
            if lane is not Lane.EVT and now_s < max(self._gates_s()):
                continue
            if now_s < cursor.paused_until_s or (cursor.failures and cursor.in_flight):
                continue
            if cursor.waiting:
                self.resent += 1
                return cursor.waiting.pop(0)
            message = await self._repair(lane, cursor) or await self._read(lane, cursor)
            if message is not None:
                return message
        return None

    async def _read(self, lane: Lane, cursor: Cursor) -> Message | None:
        end = self._marks.state().lanes[lane].next_seq - 1
        while cursor.position < end:
            after = cursor.position
            rows = await self._marks.read(
                lane, after=after, max_bytes=READ_BYTES, max_rows=READ_ROWS
            )
            if not rows:
                cursor.position = max(cursor.position, end)
                self._finish(lane, after, end)
                return None
            message = await self._pack(run_of(rows, lane=lane), lane=lane, after=after)
            cursor.position = max(cursor.position, message.last)
            if message.size <= MAX_MESSAGE_BYTES:
                return message
            await self._give_up(message, "too_large")
        return None

    async def _repair(self, lane: Lane, cursor: Cursor) -> Message | None:
        while (wanted := cursor.take_repair()) is not None:
            first, last = wanted
            found = await self._marks.read(
                lane,
                after=first - 1,
                max_bytes=READ_BYTES,
                max_rows=min(last - first + 1, READ_ROWS),
            )
            rows = run_of([row for row in found if row.seq <= last], lane=lane)
            if not rows:
                continue
            cursor.put_back(rows[-1].seq + 1, last)
            _log.info(Event.OUTBOX_SENT_AGAIN, lane=lane, first=rows[0].seq, last=rows[-1].seq)
            repair = secrets.token_hex(4)
            return await self._pack(rows, lane=lane, after=first - 1, repair=repair)
        return None

    async def _pack(
        self, rows: tuple[StoredRow, ...], *, lane: Lane, after: int, repair: str = ""
    ) -> Message:
        sender = Sender(self._device, self._epoch)
        if sum(len(row.body) for row in rows) < _PACK_IN_THREAD_BYTES:
            return pack(rows, lane=lane, after=after, sender=sender, repair=repair)
        return await asyncio.to_thread(
            pack, rows, lane=lane, after=after, sender=sender, repair=repair
        )

    # --- in flight ------------------------------------------------------------------------------

    def _start(self, message: Message) -> None:
        if message.lane is not Lane.EVT:
            self._bucket.take(message.size, now_s=asyncio.get_running_loop().time())
            self._measure()
        self._cursor(message.lane).in_flight += 1
        self.messages += 1
        task = asyncio.create_task(self._publish(message), name=f"forward {message.lane}")
        self._in_flight.add(task)

    def _measure(self) -> None:
        """Looks, while messages of a backlog are under way, how late the loop wakes a sleeper."""
        if self._measuring is None:
            due_s = asyncio.get_running_loop().time() + _LATENESS_EVERY_S
            self._measuring = asyncio.get_running_loop().call_at(due_s, self._measured, due_s)

    def _measured(self, due_s: float) -> None:
        self._measuring = None
        now_s = asyncio.get_running_loop().time()
        self._yielding.note(now_s - due_s, now_s=now_s)
        if self._in_flight:
            self._measure()

    async def _publish(self, message: Message) -> _Outcome:
        try:
            await self._link.publish(
                message.subject,
                message.body,
                headers=message.headers,
                timeout_s=self._settings.publish_timeout_s,
            )
        except LinkError as error:
            return _Outcome(message, error)
        return _Outcome(message, None)

    async def _wait(self, timeout_s: float) -> None:
        """Until a message has ended, rows came, or it is time."""
        woken = asyncio.create_task(self._wake.wait(), name="forwarder wake")
        try:
            await asyncio.wait(
                [woken, *self._in_flight],
                timeout=timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            woken.cancel()
        await self._collect()

    async def _collect(self) -> None:
        done = [task for task in self._in_flight if task.done()]
        for task in sorted(done, key=lambda one: one.result().message.last):
            self._in_flight.discard(task)
            await self._settle(task.result())
        for lane in sorted(self._moved):
            self._moved.discard(lane)
            await self._marks.mark_sent(lane, self._cursor(lane).sent)

    async def _settle(self, outcome: _Outcome) -> None:
        message, error = outcome.message, outcome.error
        cursor = self._cursor(message.lane)
        if message.epoch != self._epoch:
            return  # the outbox was begun anew meanwhile; these numbers are not ours any more
        cursor.in_flight -= 1
        if error is None:
            if cursor.stalled:
                _log.info(Event.OUTBOX_FLOWS, lane=message.lane)
            cursor.failures, cursor.stalled = 0, False
            if not message.repair:
                self._finish(message.lane, message.after, message.last)
            return
        if isinstance(error, Refused):
            await self._halve(message, str(error))
            return
        if isinstance(error, Forbidden) and message.lane is Lane.BULK:
            # The subject is the rows' own here (it names their model): the others must not wait for it.
            await self._give_up(message, str(error))
            return
        now_s = asyncio.get_running_loop().time()
        if cursor.failures == 0:
            cursor.failing_from_s = now_s
            _log.info(Event.OUTBOX_SEND_FAILED, lane=message.lane, error=str(error))
        failing_s = now_s - cursor.failing_from_s
        if failing_s >= _STALLED_S and not cursor.stalled and not isinstance(error, LinkDown):
            cursor.stalled = True
            _log.warning(
                Event.OUTBOX_STALLED,
                lane=message.lane,
                error=str(error),
                failing_s=round(failing_s),
            )
        cursor.failures += 1
        cursor.paused_until_s = now_s + _pause_after(error, cursor.failures)
        cursor.send_again(message)

    async def _halve(self, message: Message, reason: str) -> None:
        """Narrows a refused message down to the row that is to blame."""
        if len(message.rows) == 1:
            await self._give_up(message, reason)
            return
        middle = len(message.rows) // 2
        for rows, after in (
            (message.rows[:middle], message.after),
            (message.rows[middle:], message.rows[middle - 1].seq),
        ):
            half = await self._pack(rows, lane=message.lane, after=after, repair=message.repair)
            self._cursor(message.lane).send_again(half)

    async def _give_up(self, message: Message, reason: str) -> None:
        for row in message.rows:
            await self._marks.set_aside(message.lane, row.seq, reason[:200])
        self._finish(message.lane, message.after, message.last)

    def _finish(self, lane: Lane, after: int, last: int) -> None:
        if self._cursor(lane).finish(after, last):
            self._moved.add(lane)

    def _cursor(self, lane: Lane) -> Cursor:
        state = self._marks.state()
        if state.epoch != self._epoch:
            self._epoch = state.epoch
            self._cursors = {
                one: Cursor(sent=max(mark.sent, mark.applied)) for one, mark in state.lanes.items()
            }
        return self._cursors[lane]

    def _gates_s(self) -> tuple[float, float, float]:
        """Before these moments nothing of a backlog goes."""
        return (self._drain_from_s, self._bucket.free_at_s(), self._yielding.free_at_s)

    def _pause_s(self, now_s: float) -> float:
        """How long nothing can happen by itself."""
        if not self._connection:
            return _DOWN_POLL_S
        moments = list(self._gates_s())
        moments += [cursor.paused_until_s for cursor in self._cursors.values()]
        ahead = [moment - now_s for moment in moments if moment > now_s]
        return min([*ahead, _IDLE_S])


def _pause_after(error: LinkError, failures: int) -> float:
    """How long a lane waits: briefly for a lost connection, long for a stream that is full."""
    if isinstance(error, LinkDown):
        return _DOWN_POLL_S
    if isinstance(error, LinkTimeout | NoResponders):
        return _PAUSES_S[min(failures, len(_PAUSES_S)) - 1]
    return _FULL_PAUSE_S
