"""Faults of the disk and of the file, on real files."""

import asyncio
import os
import resource
import sqlite3
from pathlib import Path

import pytest

from contract.messages import Gap
from contract.status import Lane, RowClass
from edge_agent.errors import StoreError
from edge_agent.outbox.database import Database
from edge_agent.types import Checkpoint, Commit, NewRow
from tests.unit.edge_agent.outbox.conftest import raw, until, whole_round
from tests.unit.edge_agent.outbox.ledger import account, gaps_of, rows_of


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_commit_whose_end_failed_is_stored_exactly_once(open_outbox, monkeypatch, moment):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(fill=b"0"),)))
    run = Database.run
    failures: list[str] = []

    def failing(self, statement, values=()):
        if statement == "COMMIT" and not failures:
            failures.append(statement)
            if moment == "after":
                run(self, statement, values)
            raise StoreError("SQLITE_IOERR_FSYNC (injected)")
        return run(self, statement, values)

    monkeypatch.setattr(Database, "run", failing)
    futures = [outbox.submit(Commit(rows=(raw(fill=b"%d" % n),))) for n in range(1, 6)]
    assert await asyncio.gather(*futures) == [2, 3, 4, 5, 6]
    assert failures
    assert [row.body[:1] for row in await rows_of(outbox)] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert outbox.state().fault == ""


async def test_while_the_disk_refuses_futures_wait_and_then_everything_is_there(open_outbox):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(),)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        future = outbox.submit(Commit(rows=(raw(size=500_000),)))
        await until(lambda: bool(outbox.state().fault))
        await asyncio.sleep(0.3)
        assert not future.done()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert await asyncio.wait_for(future, 10) == 2
    assert outbox.state().fault == ""
    assert [len(row.body) for row in await rows_of(outbox)] == [200, 500_000]


async def fill(outbox, *, commits: int, readings: int = 7, size: int = 300, rows: int = 10):
    for n in range(commits):
        await outbox.ready()
        one = tuple(raw(readings, size) for _ in range(rows))
        await outbox.submit(whole_round(*one) if outbox.checkpoint_due() else Commit(rows=one))
        if n % 10 == 0:
            await outbox.submit(Commit(rows=(NewRow(RowClass.ALARM, b"alarm" * 20),)))
    return dict.fromkeys(range(1, commits * rows + 1), readings)


@pytest.mark.parametrize("size", [60, 300, 6000])
async def test_over_the_quota_raw_is_shed_alarms_are_kept_and_gaps_are_exact(
    open_outbox, tmp_path, size
):
    outbox = await open_outbox(max_bytes=2 * 1024 * 1024)
    rows = max(2, 6000 // size)
    given = await fill(outbox, commits=250, size=size, rows=rows)
    files = [path for path in (tmp_path / "outbox").iterdir() if path.name.startswith("spool.db")]
    assert sum(path.stat().st_size for path in files) <= 2 * 1024 * 1024
    kept, lost = await account(outbox, given)
    assert len(kept) > 10
    assert lost
    alarms = [row for row in await rows_of(outbox, Lane.EVT) if row.kind is RowClass.ALARM]
    assert len(alarms) == 25
    assert max(kept) == len(given)
    assert outbox.state().shed["raw_readings"] == sum(lost.values())
    assert outbox.state().fault == ""


async def test_without_rounds_nothing_may_be_shed_and_the_future_waits_until_one_comes(open_outbox):
    outbox = await open_outbox(max_bytes=1024 * 1024)
    futures = [outbox.submit(Commit(rows=(raw(size=20_000),))) for _ in range(60)]
    await until(lambda: "StoreFull" in outbox.state().fault)
    stored = outbox.state().lanes[Lane.TEL].rows
    assert 0 < stored < 60
    assert not futures[-1].done()
    assert len(await rows_of(outbox)) == stored
    await outbox.close()
    assert futures[-1].cancelled()


async def flip(path: Path, offset: int) -> None:
    data = bytearray(await asyncio.to_thread(path.read_bytes))
    data[offset] ^= 0x10
    await asyncio.to_thread(path.write_bytes, bytes(data))


async def test_a_flipped_bit_in_a_body_costs_that_row_and_says_so_exactly(open_outbox, tmp_path):
    outbox = await open_outbox()
    bodies = [b"<%03d>" % n * 40 for n in range(50)]
    await outbox.submit(Commit(rows=tuple(NewRow(RowClass.RAW, body, 9) for body in bodies)))
    await outbox.close()
    path = tmp_path / "outbox" / "spool.db"
    await flip(path, path.read_bytes().index(b"<017>") + 2)
    outbox = await open_outbox()
    rows = await rows_of(outbox)
    assert [row.body for row in rows] == [body for n, body in enumerate(bodies) if n != 17]
    assert await gaps_of(outbox) == [Gap(Lane.TEL, 18, 18, 1, 9, "bad_checksum")]
    assert outbox.state().dead_letters == 1


async def test_a_destroyed_file_is_set_aside_and_the_outbox_goes_on(open_outbox, tmp_path):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(),) * 5))
    await outbox.close()
    path = tmp_path / "outbox" / "spool.db"
    path.write_bytes(b"this is no database " * 1000)
    outbox = await open_outbox()
    assert await outbox.submit(Commit(rows=(raw(),))) == 6
    assert await gaps_of(outbox) == [Gap(Lane.TEL, 1, 5, 1, 20, "corrupt")]
    assert len([one for one in path.parent.iterdir() if "corrupt" in one.name]) == 1


async def test_damaged_pages_cost_their_rows_and_the_rest_keeps_its_numbers(open_outbox, tmp_path):
    outbox = await open_outbox()
    epoch = outbox.state().epoch
    given: dict[int, int] = {}
    for n in range(100):
        await outbox.submit(Commit(rows=tuple(raw(n + 1, 500) for _ in range(10))))
        given |= dict.fromkeys(range(n * 10 + 1, n * 10 + 11), n + 1)
    await outbox.submit(
        Commit(checkpoints=(Checkpoint("s", b"c" * 100),), pending=(("v", b"waiting"),))
    )
    await outbox.close()
    path = tmp_path / "outbox" / "spool.db"
    data = bytearray(path.read_bytes())
    for page in (40, 41, 60):
        data[page * 4096 : page * 4096 + 3000] = os.urandom(3000)
    path.write_bytes(bytes(data))

    outbox = await open_outbox()
    await rows_of(outbox)
    await account(outbox, given)
    state = outbox.state()
    assert state.epoch == epoch
    assert state.lanes[Lane.TEL].next_seq == 1001
    assert 900 < state.lanes[Lane.TEL].rows < 1000
    recovery = await outbox.recover()
    assert recovery.checkpoints == {"s": (1000, b"c" * 100)}
    assert recovery.pending == (("v", b"waiting"),)
    assert await outbox.submit(Commit(rows=(raw(),))) == 1001


@pytest.mark.timeout(120)
async def test_no_flipped_bit_ever_changes_a_row_or_stops_the_outbox(open_outbox, tmp_path):
    outbox = await open_outbox()
    bodies = {}
    for n in range(60):
        body = b"%04d" % n * 100
        bodies[n + 1] = body
        await outbox.submit(Commit(rows=(NewRow(RowClass.RAW, body, 3),)))
    await outbox.submit(Commit(checkpoints=(Checkpoint("s", b"c"),)))
    await outbox.close()
    path = tmp_path / "outbox" / "spool.db"
    original = path.read_bytes()
    state = (path.parent / "state.db").read_bytes()
    for n in range(60):
        for old in path.parent.iterdir():
            old.unlink()
        (path.parent / "state.db").write_bytes(state)
        data = bytearray(original)
        data[(n * 7919 + n * n * 31) % len(data)] ^= 1 << (n % 8)
        path.write_bytes(bytes(data))
        outbox = await open_outbox()
        rows = await rows_of(outbox)
        assert all(bodies[row.seq] == row.body for row in rows), n
        assert [row.seq for row in rows] == sorted({row.seq for row in rows})
        assert await outbox.submit(Commit(rows=(raw(),))) >= len(rows)
        await outbox.close()


async def test_boot_does_not_depend_on_the_backlog(open_outbox):
    outbox = await open_outbox()
    rows = tuple(raw(256, 100) for _ in range(1000))
    last = outbox.submit(Commit())
    for _ in range(50):
        await outbox.ready()
        last = outbox.submit(whole_round(*rows))
    await last
    await outbox.close()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    outbox = await open_outbox()
    took_s = loop.time() - began_s
    assert outbox.state().lanes[Lane.TEL].readings == 12_800_000
    assert took_s < 0.5


async def test_old_rows_go_by_the_spools_own_age_whatever_the_wall_clock_says(open_outbox):
    outbox = await open_outbox(budgets={"raw": {"max_age_s": 3600}})
    await outbox.submit(whole_round(*[raw(2)] * 10))
    files = outbox._files
    files._clock = Jumped(wall_s=400 * 86400, mono_s=0)
    assert await outbox._owner.do(files.expire) is False
    files._clock = Jumped(wall_s=0, mono_s=7200)
    assert await outbox._owner.do(files.expire) is True
    assert outbox.state().lanes[Lane.TEL].rows == 0
    assert await gaps_of(outbox) == [Gap(Lane.TEL, 1, 10, 1, 20, "age")]


class Jumped:
    """A clock that is ahead of the real one."""

    def __init__(self, *, wall_s: float, mono_s: float) -> None:
        from tests.unit.edge_agent.outbox.conftest import CLOCK

        self._now = CLOCK.wall_s() + wall_s, CLOCK.mono_ns() + int(mono_s * 1e9)

    def wall_s(self) -> float:
        return self._now[0]

    def mono_ns(self) -> int:
        return self._now[1]


def test_sqlite_is_new_enough_for_what_the_spool_uses():
    assert sqlite3.sqlite_version_info >= (3, 24)
