"""Answers a device's state request: what is stored of its lanes, how busy the hub is, and its revisions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final

import structlog

from cloud_hub.errors import StoreError
from cloud_hub.fleet.forgone import forgone_rows
from cloud_hub.fleet.presence import Presence
from cloud_hub.metrics import HubMetrics
from cloud_hub.store.apply import apply_batch, load_marks
from cloud_hub.store.database import Connection, Database
from cloud_hub.store.marks import LaneKey, Marks
from cloud_hub.store.revising import renumber_revisions, revisions_above, revisions_given
from cloud_hub.types import Backlog, Inbound, LoadGauge, Post
from contract import subjects
from contract.canonical import canonical_json, sha256_hex
from contract.encoding import EncodingError, decode, encode, expand
from contract.messages import (
    SCHEMA_VERSION,
    LaneReport,
    Revision,
    StateAnswer,
    StateReport,
    Watermark,
)
from contract.status import Lane, Status

MAX_ANSWER_BYTES: Final = 64 * 1024
MAX_MISSING: Final = 64
MAX_REVISIONS: Final = 512
MAX_WAITING: Final = 4096
WORKERS: Final = 4
ETAG_DIGITS: Final = 16
MAX_NUMBER: Final = 2**62
"""Every number of a report is below it, so that sums of two fit any database."""

log = structlog.get_logger()


class StateDesk:
    """Answers state requests, a few at a time; one that waits too long is dropped, and the device asks again."""

    def __init__(
        self,
        *,
        database: Database,
        presence: Presence,
        backlog: Backlog,
        load: LoadGauge,
        post: Post,
        metrics: HubMetrics,
    ) -> None:
        self._database = database
        self._presence = presence
        self._backlog = backlog
        self._load = load
        self._post = post
        self._metrics = metrics
        self._waiting: asyncio.Queue[Inbound] = asyncio.Queue(MAX_WAITING)

    def on_request(self, message: Inbound) -> None:
        """Takes a request; never blocks."""
        try:
            self._waiting.put_nowait(message)
        except asyncio.QueueFull:
            self._metrics.dropped.labels("state_queue_full").inc()

    async def run(self) -> None:
        """Answers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(WORKERS):
                tasks.create_task(self._work(), name=f"state-{number}")

    async def answer(self, device: str, report: StateReport) -> StateAnswer:
        """What the hub has to say to this report; raises StoreError.

        All that was sent before and is not in a watermark whose `pending` is 0 must be sent again.
        """
        keys = _lane_keys(device, report.lanes)
        marks = await self._database.read(lambda c: load_marks(c, keys.values()))
        behind = [
            lane for lane, key in keys.items() if marks[key].applied < report.lanes[lane].sent
        ]
        pending = await self._pending(behind)
        if behind:
            # Read again after counting: what the count no longer includes was committed before it.
            marks = await self._database.read(lambda c: load_marks(c, keys.values()))
            marks = await self._without_forgone(report, keys, marks, pending)
        watermarks = {
            lane: _watermark(key, marks[key], pending.get(lane, 0)) for lane, key in keys.items()
        }
        revisions = await self._revisions(device, report.revised_to)
        load = self._load.load()
        etag = _etag(watermarks, revisions)
        if etag == report.etag:
            self._metrics.state_requests.labels("unchanged").inc()
            return StateAnswer(etag=etag, unchanged=True, load=load)
        self._metrics.state_requests.labels("full").inc()
        return _fitting(StateAnswer(etag, watermarks=watermarks, load=load, revisions=revisions))

    async def _work(self) -> None:
        while True:
            message = await self._waiting.get()
            try:
                plain = expand(message.body, message.headers.get(subjects.ENCODING, ""))
                report = decode(plain, StateReport)
                _check_numbers(report)
            except EncodingError as error:
                log.warning("state_unreadable", key=message.device, error=str(error))
                self._reply(message, Status.BAD_INPUT, StateAnswer(etag=""))
                continue
            self._presence.note(message.device, report, seen_s=time.time())
            try:
                answer = await self.answer(message.device, report)
            except StoreError as error:
                log.warning("state_store_failed", error=str(error))
                self._reply(message, Status.INTERNAL, StateAnswer(etag=""))
                continue
            except Exception as error:  # noqa: BLE001 - one bad request must not end the others'
                log.warning("state_failed", key=message.device, error=repr(error))
                self._reply(message, Status.INTERNAL, StateAnswer(etag=""))
                continue
            self._reply(message, Status.OK, answer)

    def _reply(self, message: Inbound, status: Status, answer: StateAnswer) -> None:
        headers = {subjects.STATUS: status.value, subjects.SCHEMA: str(SCHEMA_VERSION)}
        self._post.post(message.reply, encode(answer), headers)

    async def _pending(self, lanes: Iterable[str]) -> dict[str, int]:
        names = list(lanes)
        counts = await asyncio.gather(*(self._backlog.pending(Lane(name)) for name in names))
        for name, count in zip(names, counts, strict=True):
            self._metrics.pending_messages.labels(name).set(count)
        return dict(zip(names, counts, strict=True))

    async def _without_forgone(
        self,
        report: StateReport,
        keys: dict[str, LaneKey],
        marks: dict[LaneKey, Marks],
        pending: dict[str, int],
    ) -> dict[LaneKey, Marks]:
        """The marks after rows that nobody has were written down as gaps."""
        batch = forgone_rows(report.lanes, keys, marks, pending=pending, now_s=time.time())
        if batch is None:
            return marks
        for gap in batch.gaps:
            span = f"{gap['first']}-{gap['last']}"
            log.warning("rows_forgone", key=gap["device"], lane=gap["gap_lane"], rows=span)
        await self._database.write(lambda c: apply_batch(c, batch, max_dead_letters=0))
        return await self._database.read(lambda c: load_marks(c, keys.values()))

    async def _revisions(self, device: str, revised_to: int) -> tuple[Revision, ...]:
        given, found = await self._database.read(lambda c: _revisions_now(c, device, revised_to))
        if found or given >= revised_to:
            return found
        await self._database.write(lambda c: renumber_revisions(c, device, revised_to))
        return (await self._database.read(lambda c: _revisions_now(c, device, revised_to)))[1]


async def _revisions_now(
    connection: Connection, device: str, revised_to: int
) -> tuple[int, tuple[Revision, ...]]:
    found = await revisions_above(connection, device, revised_to, limit=MAX_REVISIONS)
    return await revisions_given(connection, device), found


def _lane_keys(device: str, lanes: dict[str, LaneReport]) -> dict[str, LaneKey]:
    """The lanes of a report that exist, by name."""
    known = {lane.value for lane in Lane}
    return {name: (device, report.epoch, name) for name, report in lanes.items() if name in known}


def _check_numbers(report: StateReport) -> None:
    """Raises EncodingError for a number that nobody can have counted to."""
    numbers = [report.streams, report.readings, report.verdicts, report.revised_to]
    for lane in report.lanes.values():
        numbers += (lane.next_seq, lane.sent, lane.first_kept)
    numbers += (model.release for model in report.models)
    if not all(0 <= number < MAX_NUMBER for number in numbers):
        raise EncodingError("a number of the report is below 0, or 2^62 or more")


def _watermark(key: LaneKey, marks: Marks, pending: int) -> Watermark:
    return Watermark(
        epoch=key[1],
        applied=marks.applied,
        missing=marks.missing(limit=MAX_MISSING),
        pending=pending,
    )


def _etag(watermarks: dict[str, Watermark], revisions: tuple[Revision, ...]) -> str:
    """Names what a device must know; the load is not part of it, and comes with every answer."""
    return sha256_hex(canonical_json([watermarks, revisions]))[:ETAG_DIGITS]


def _fitting(answer: StateAnswer) -> StateAnswer:
    """The answer with as many revisions, from the lowest number on, as fit; the rest come the next time."""
    while answer.revisions and len(encode(answer)) > MAX_ANSWER_BYTES:
        kept = answer.revisions[: len(answer.revisions) // 2]
        etag = _etag(answer.watermarks, kept)
        answer = StateAnswer(etag, watermarks=answer.watermarks, load=answer.load, revisions=kept)
    return answer
