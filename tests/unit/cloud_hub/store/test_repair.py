"""Times are corrected once the device's clock is known, by any stamp of the same boot, and never twice."""

import asyncio
from pathlib import Path

import msgspec
import numpy as np
import pytest

from cloud_hub.fleet.repairs import RepairDesk
from cloud_hub.ingest.decode import decode_deliveries
from cloud_hub.metrics import HubMetrics
from cloud_hub.store.apply import Applied, apply_batch
from cloud_hub.store.database import Database, writing
from cloud_hub.store.fleet_queries import show_device
from cloud_hub.store.repair import SLICE_ROWS, repaired_time
from cloud_hub.store.tables import events, rollups, telemetry
from cloud_hub.store.telemetry_queries import query_telemetry
from contract.encoding import encode
from contract.messages import Clock, RawRow, ReadingGroup, Rollup, Row, VerdictEvent
from contract.status import Lane, RowClass
from contract.trust import ReadingFlag
from tests.unit.cloud_hub.sample_rows import delivery, raw_group, rollup_row, verdict

NOW_S = 1_796_000_000.0
BOOTED_S = NOW_S - 1000.0
"""The right time when the monotonic clock was 0; the wall clock said 0 until it was set."""
UNTRUSTED = int(ReadingFlag.CLOCK_UNTRUSTED)
REPAIRED = int(ReadingFlag.TIME_REPAIRED)


def lost(mono_s: float, *, boot: str = "b1") -> Clock:
    """The stamp of a device in 1970."""
    return Clock(boot, mono_s, mono_s, trusted=False)


def good(mono_s: float, *, boot: str = "b1", booted_s: float = BOOTED_S) -> Clock:
    return Clock(boot, mono_s, booted_s + mono_s, trusted=True)


def readings(seq: int, clock: Clock, *, own: list[float] | None = None, **columns) -> Row:
    group = raw_group([clock.wall_s - 1, clock.wall_s])
    columns.setdefault("flags", bytes([0 if clock.trusted else UNTRUSTED] * 2))
    given = b"" if own is None else np.array(own, dtype="<f8").tobytes()
    group = msgspec.structs.replace(group, own=given, **columns)
    return Row(seq, RowClass.RAW, encode(RawRow(clock, (group,))))


def event(seq: int, clock: Clock, *, time_s: float) -> Row:
    stamped = msgspec.structs.replace(verdict(f"v{seq}", time_s=time_s), clock=clock)
    return Row(seq, RowClass.VERDICT, encode(stamped))


@pytest.fixture
async def database(tmp_path: Path):
    async with writing(f"sqlite+aiosqlite:///{tmp_path / 'hub.db'}") as opened:
        yield opened


@pytest.fixture
def desk(database: Database) -> RepairDesk:
    return RepairDesk(database, metrics=HubMetrics())


async def store(database: Database, *rows: Row, lane: Lane = Lane.TEL) -> Applied:
    batch = decode_deliveries([delivery(rows, lane)], lane, received_s=NOW_S)
    return await database.write(lambda c: apply_batch(c, batch, max_dead_letters=9))


async def settle(desk: RepairDesk, applied: Applied) -> int:
    """Repairs what the commit said; returns how many rows that were."""
    rows = 0
    for boot in sorted(applied.clocks.repairable | applied.clocks.again):
        rows += await desk.repair(boot, again=boot in applied.clocks.again)
    return rows


async def times(database: Database) -> list[float]:
    answer = await database.read(lambda c: query_telemetry(c, "d1"))
    return [time for group in answer.groups for time in group.times.tolist()]


async def flags(database: Database) -> list[int]:
    answer = await database.read(lambda c: query_telemetry(c, "d1"))
    return [flag for group in answer.groups for flag in group.flags.tolist()]


async def test_rows_of_1970_get_their_times_when_a_trusted_stamp_of_the_boot_comes(database, desk):
    assert not (await store(database, readings(1, lost(10.0)))).clocks
    assert await times(database) == [9.0, 10.0]
    assert await flags(database) == [UNTRUSTED, UNTRUSTED]
    applied = await store(database, readings(2, good(500.0)))
    assert await settle(desk, applied) == 1
    assert await times(database) == [BOOTED_S + t for t in (9, 10, 499, 500)]
    assert await flags(database) == [REPAIRED, REPAIRED, 0, 0]
    shown = await database.read(lambda c: show_device(c, "d1"))
    assert shown["times"] == {
        "in_doubt": 0, "repaired": 2, "found_right": 0, "boots_in_doubt": [],
    }  # fmt: skip


async def test_rows_that_come_after_the_stamp_are_repaired_too(database, desk):
    await settle(desk, await store(database, readings(2, good(500.0))))
    applied = await store(database, readings(1, lost(10.0)))
    assert await settle(desk, applied) == 1
    assert (await times(database))[:2] == [BOOTED_S + 9, BOOTED_S + 10]


async def test_repairing_again_changes_nothing_and_what_was_sent_can_be_told(database, desk):
    await store(database, readings(1, lost(10.0)))
    await settle(desk, await store(database, readings(2, good(500.0))))
    before = await times(database)
    assert await desk.repair(("d1", "b1")) == 0
    assert await desk.repair(("d1", "b1"), again=True) == 0
    assert await times(database) == before
    (row,) = await database.read(
        lambda c: c.execute(telemetry.select().where(~telemetry.c.clock_trusted))
    )
    assert np.frombuffer(row.arrivals, "<f8") - row.shift_s == pytest.approx([9.0, 10.0])
    assert (row.t_min, row.t_max) == (BOOTED_S + 9, BOOTED_S + 10)


async def test_another_boot_tells_nothing_and_the_command_says_so(database, desk):
    await store(database, readings(1, lost(10.0)))
    applied = await store(database, readings(2, good(5.0, boot="b2")))
    assert await settle(desk, applied) == 0
    assert (await times(database))[:2] == [9.0, 10.0]
    shown = await database.read(lambda c: show_device(c, "d1"))
    assert (shown["times"]["in_doubt"], shown["times"]["boots_in_doubt"]) == (2, ["b1"])


async def test_a_clock_that_was_right_is_confirmed_and_moves_nothing(database, desk):
    doubted = Clock("b1", 10.0, BOOTED_S + 10.3, trusted=False)
    await store(database, readings(1, doubted))
    before = await times(database)
    await settle(desk, await store(database, readings(2, good(500.0))))
    assert (await times(database))[:2] == before
    assert (await flags(database))[:2] == [0, 0]
    shown = await database.read(lambda c: show_device(c, "d1"))
    assert (shown["times"]["found_right"], shown["times"]["repaired"]) == (2, 0)


async def test_a_payloads_own_time_is_judged_again_by_the_repaired_arrival(database, desk):
    """Refused since the device thought it was earlier; refused rightly; believed while nobody could judge."""
    clock = Clock("b1", 10.0, NOW_S - 90_000.0, trusted=False)
    untrusted = UNTRUSTED | int(ReadingFlag.TIME_UNTRUSTED)
    right, wrong = BOOTED_S + 8.0, NOW_S + 1e6
    own = [right, wrong]
    await store(database, readings(1, clock, own=own, flags=bytes([untrusted] * 2)))
    believed = readings(2, lost(20.0), own=[wrong, float("nan")])
    content = msgspec.msgpack.decode(believed.body, type=RawRow)
    times_of = np.array([wrong, 20.0], dtype="<f8").tobytes()
    group = msgspec.structs.replace(content.groups[0], times=times_of)
    await store(database, Row(2, RowClass.RAW, encode(RawRow(content.clock, (group,)))))
    await settle(desk, await store(database, readings(3, good(500.0))))
    rows = await database.read(
        lambda c: c.execute(telemetry.select().where(telemetry.c.seq < 3).order_by("seq"))
    )
    first, second = rows.all()
    assert np.frombuffer(first.times, "<f8").tolist() == pytest.approx([right, BOOTED_S + 10])
    assert list(first.flags) == [REPAIRED, REPAIRED | int(ReadingFlag.TIME_UNTRUSTED)]
    assert np.frombuffer(second.times, "<f8").tolist() == pytest.approx(
        [BOOTED_S + 19, BOOTED_S + 20]
    )
    assert list(second.flags) == [REPAIRED | int(ReadingFlag.TIME_UNTRUSTED), REPAIRED]


async def test_a_payloads_time_that_is_used_does_not_move_with_the_devices_clock(database, desk):
    sensor = np.array([BOOTED_S + 8.5, BOOTED_S + 9.5], dtype="<f8").tobytes()
    await store(database, readings(1, lost(10.0), times=sensor))
    await settle(desk, await store(database, readings(2, good(500.0))))
    assert (await times(database))[:2] == [BOOTED_S + 8.5, BOOTED_S + 9.5]


async def test_events_and_rollups_are_repaired_and_their_payloads_are_not_touched(database, desk):
    rollup = msgspec.msgpack.decode(rollup_row(1).body, type=Rollup)
    rollup = msgspec.structs.replace(rollup, from_s=1.0, to_s=60.0, clock=lost(60.0))
    await store(database, Row(1, RowClass.ROLLUP, encode(rollup)))
    rows = [event(1, lost(20.0), time_s=19.5), event(2, lost(30.0), time_s=BOOTED_S + 29.0)]
    await store(database, *rows, lane=Lane.EVT)
    applied = await store(database, event(3, good(500.0), time_s=BOOTED_S + 499), lane=Lane.EVT)
    assert await settle(desk, applied) == 3
    found = await database.read(lambda c: c.execute(events.select().order_by("seq")))
    kept = found.all()
    assert [row.time_s for row in kept] == pytest.approx(
        [BOOTED_S + 19.5, BOOTED_S + 29.0, BOOTED_S + 499]
    )
    assert msgspec.json.decode(kept[0].payload, type=VerdictEvent).time_s == 19.5
    (summed,) = await database.read(lambda c: c.execute(rollups.select()))
    assert (summed.from_s, summed.to_s) == (BOOTED_S + 1, BOOTED_S + 60)


async def test_a_nearer_stamp_that_comes_later_corrects_what_was_repaired(database, desk):
    """The state report of today arrives before the backlog that was stored before the clock jumped."""
    await store(database, readings(1, lost(10.0)))
    await settle(desk, await store(database, readings(2, good(900.0, booted_s=BOOTED_S - 50))))
    assert (await times(database))[:2] == [BOOTED_S - 41, BOOTED_S - 40]
    applied = await store(database, readings(3, good(20.0)))
    assert applied.clocks.again == {("d1", "b1")}
    await settle(desk, applied)
    assert (await times(database))[:2] == pytest.approx([BOOTED_S + 9, BOOTED_S + 10])


async def test_many_rows_are_repaired_in_slices_that_let_writes_through(database, desk):
    count = 2 * SLICE_ROWS + 5
    await store(database, *(readings(n, lost(float(n))) for n in range(1, count + 1)))
    applied = await store(database, readings(count + 1, good(900.0)))
    repairing = asyncio.create_task(settle(desk, applied))
    await store(database, readings(count + 2, good(901.0)))
    assert await repairing == count
    assert min(await times(database)) == BOOTED_S


async def test_a_hub_that_died_meanwhile_goes_on_at_its_start(database, desk):
    await store(database, readings(1, lost(10.0)))
    await store(database, readings(2, good(500.0)))
    running = asyncio.create_task(desk.run())
    async with asyncio.timeout(10):
        while (await times(database))[0] < BOOTED_S:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_device_in_the_future_moves_nobody_elses_times(database, desk):
    future = Clock("b9", 10.0, NOW_S + 1e8, trusted=True)
    batch = decode_deliveries(
        [delivery([readings(1, future)], Lane.TEL, device="d9")], Lane.TEL, received_s=NOW_S
    )
    applied = await database.write(lambda c: apply_batch(c, batch, max_dead_letters=9))
    assert not applied.clocks
    await store(database, readings(1, lost(10.0)))
    await settle(desk, await store(database, readings(2, good(500.0))))
    assert await times(database) == [BOOTED_S + t for t in (9, 10, 499, 500)]


@pytest.mark.parametrize(
    ("time_s", "moves"),
    [(19.5, True), (20.0 - 3599, True), (BOOTED_S + 19.0, False), (1.0e9, False), (-9e4, False)],
)
def test_an_events_time_moves_only_if_the_devices_clock_gave_it(time_s, moves):
    moved = repaired_time(time_s, wall_s=20.0, move_s=BOOTED_S)
    assert moved == (time_s + BOOTED_S if moves else time_s)


def test_the_group_of_another_version_has_no_own_times():
    group = ReadingGroup("s", 0, 1, ("a",), ("",), b"", b"", b"", b"")
    assert group.own == b""
