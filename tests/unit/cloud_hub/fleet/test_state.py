"""State answers: watermarks of the epoch that was asked for, revisions that fit, nothing said twice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cloud_hub.fleet.presence import Presence
from cloud_hub.fleet.state import MAX_ANSWER_BYTES, StateDesk
from cloud_hub.ingest.decode import decode_deliveries
from cloud_hub.metrics import HubMetrics
from cloud_hub.store.apply import apply_batch
from cloud_hub.store.database import Database, writing
from cloud_hub.store.fleet_queries import list_devices, show_device
from cloud_hub.store.revising import answer_escalation
from cloud_hub.types import Inbound
from contract import subjects
from contract.encoding import encode
from contract.messages import HubLoad, LaneReport, Revision, StateReport
from contract.status import Lane, Status
from tests.unit.cloud_hub.sample_rows import CLOCK, delivery, escalation_row, raw_row


class Surroundings:
    """What the desk needs of other rooms, scripted."""

    def __init__(self) -> None:
        self.waiting: dict[Lane, int] = {}
        self.asked: list[Lane] = []
        self.posted: list[tuple[str, bytes]] = []
        self.statuses: list[str] = []
        self.broken = False

    async def pending(self, lane: Lane) -> int:
        self.asked.append(lane)
        if self.broken:
            raise RuntimeError("scripted")
        return self.waiting.get(lane, 0)

    def load(self) -> HubLoad:
        return HubLoad(7, 1.5)

    def post(self, subject: str, body: bytes, headers=None) -> None:
        self.posted.append((subject, body))
        self.statuses.append((headers or {}).get(subjects.STATUS, ""))


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with writing(f"sqlite+aiosqlite:///{tmp_path / 'hub.db'}") as opened:
        yield opened


@pytest.fixture
def around() -> Surroundings:
    return Surroundings()


@pytest.fixture
def desk(database: Database, around: Surroundings) -> StateDesk:
    metrics = HubMetrics()
    presence = Presence(database, metrics=metrics)
    return StateDesk(
        database=database,
        presence=presence,
        backlog=around,
        load=around,
        post=around,
        metrics=metrics,
    )


def _report(
    sent: int = 0, *, epoch: str = "e1", revised_to: int = 0, etag: str = ""
) -> StateReport:
    lanes = {"tel": LaneReport(epoch, next_seq=sent + 1, sent=sent, first_kept=1)}
    return StateReport("0.1.0", CLOCK, lanes, revised_to=revised_to, etag=etag)


async def _store(database: Database, rows, lane: Lane = Lane.TEL) -> None:
    batch = decode_deliveries([delivery(rows, lane)], lane, received_s=1.0)
    await database.write(lambda c: apply_batch(c, batch, max_dead_letters=1))


async def _revise(database: Database, count: int, *, stream: str = "pump") -> None:
    rows = [escalation_row(n, f"v{n}", digest="x") for n in range(1, count + 1)]
    await _store(database, rows, Lane.BULK)
    for n in range(1, count + 1):
        revision = Revision(f"v{n}", stream, "high", 0.9, 0.9, "tiny-class", 3, 1.0)
        await database.write(lambda c, r=revision: answer_escalation(c, "d1", r, made_s=1.0))  # type: ignore[misc]


async def test_the_server_is_asked_only_while_something_is_missing(database, desk, around):
    await _store(database, [raw_row(1), raw_row(2)])
    around.waiting[Lane.TEL] = 3
    whole = await desk.answer("d1", _report(2))
    assert (around.asked, whole.watermarks["tel"].applied) == ([], 2)
    behind = await desk.answer("d1", _report(5))
    assert (around.asked, behind.watermarks["tel"].pending) == ([Lane.TEL], 3)


async def test_an_epoch_that_is_not_known_has_nothing_applied(database, desk):
    await _store(database, [raw_row(1)])
    answer = await desk.answer("d1", _report(0, epoch="e9"))
    assert (answer.watermarks["tel"].epoch, answer.watermarks["tel"].applied) == ("e9", 0)


async def test_a_lane_that_does_not_exist_is_not_answered(desk):
    strange = StateReport("0.1.0", CLOCK, {"video": LaneReport("e1", 1, 0, 1)})
    assert (await desk.answer("d1", strange)).watermarks == {}


async def test_an_unchanged_answer_is_about_a_hundred_bytes_and_load_comes_always(database, desk):
    await _store(database, [raw_row(1)])
    first = await desk.answer("d1", _report(1))
    second = await desk.answer("d1", _report(1, etag=first.etag))
    assert (first.unchanged, second.unchanged) == (False, True)
    assert second.load == HubLoad(7, 1.5)
    assert len(encode(second)) <= 130
    await _store(database, [raw_row(2)])
    assert not (await desk.answer("d1", _report(2, etag=first.etag))).unchanged


async def test_revisions_come_until_the_device_has_them_in_answers_that_fit(database, desk):
    await _revise(database, 300, stream="s" * 200)
    got: list[int] = []
    while True:
        answer = await desk.answer("d1", _report(revised_to=got[-1] if got else 0))
        assert len(encode(answer)) <= MAX_ANSWER_BYTES
        if not answer.revisions:
            break
        got += [each.seq for each in answer.revisions]
    assert got == list(range(1, 301))


async def test_a_device_that_outlived_the_hubs_database_still_gets_revisions(database, desk):
    await _revise(database, 2)
    answer = await desk.answer("d1", _report(revised_to=50))
    assert [each.seq for each in answer.revisions] == [51, 52]


def _survivor(*, sent: int, first_kept: int, evt_next: int = 1) -> StateReport:
    """A device that has long deleted rows which this database never got."""
    lanes = {
        "evt": LaneReport("e1", next_seq=evt_next, sent=evt_next - 1, first_kept=1),
        "tel": LaneReport("e1", next_seq=sent + 1, sent=sent, first_kept=first_kept),
    }
    return StateReport("0.1.0", CLOCK, lanes)


async def test_rows_that_nobody_has_are_declared_and_hold_nothing_up(database, desk, around):
    await _store(database, [raw_row(7), raw_row(8)])
    around.waiting[Lane.TEL] = 1
    report = _survivor(sent=8, first_kept=7)
    assert (await desk.answer("d1", report)).watermarks["tel"].applied == 0
    around.waiting[Lane.TEL] = 0
    assert (await desk.answer("d1", report)).watermarks["tel"].applied == 8
    shown = await database.read(lambda c: show_device(c, "d1"))
    assert shown["gaps"] == {"records": 1, "readings": 0, "held": 0, "exact": False}


async def test_rows_are_not_forgone_while_a_gap_record_may_be_on_its_way(database, desk):
    await _store(database, [raw_row(7)])
    report = _survivor(sent=7, first_kept=7, evt_next=3)
    answer = await desk.answer("d1", report)
    assert answer.watermarks["tel"].applied == 0


async def test_reports_are_written_down(database, around):
    presence = Presence(database, metrics=HubMetrics())
    presence.note("d1", _report(1), seen_s=100.0)
    presence.note("d1", _report(2), seen_s=200.0)
    await presence.flush()
    (found,) = await database.read(list_devices)
    assert found["last_seen_s"] == 200.0
    assert found["state"]["lanes"]["tel"]["sent"] == 2


async def _statuses(desk: StateDesk, around: Surroundings, reports: list[StateReport]) -> list[str]:
    running = asyncio.create_task(desk.run())
    for report in reports:
        before = len(around.statuses)
        desk.on_request(Inbound("d1", "state", (), {}, encode(report), "reply", 0.0))
        async with asyncio.timeout(10):
            while len(around.statuses) == before and not running.done():
                await asyncio.sleep(0.01)
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return around.statuses


async def test_impossible_numbers_are_bad_input_and_the_next_request_is_answered(desk, around):
    lanes = {"tel": LaneReport("e1", 1, 0, 2**62)}
    reports = [_report(revised_to=n) for n in (2**63, 2**62, -1)] * 2
    reports += [StateReport("0.1.0", CLOCK, lanes), _report(revised_to=2**62 - 1)]
    found = await _statuses(desk, around, reports)
    assert found == [Status.BAD_INPUT] * 7 + [Status.OK]


async def test_a_request_that_fails_in_an_unknown_way_ends_no_worker(desk, around):
    around.broken = True
    found = await _statuses(desk, around, [_report(5)] * 6)
    around.broken = False
    assert found == [Status.INTERNAL] * 6
    assert (await _statuses(desk, around, [_report(5)]))[-1] == Status.OK
