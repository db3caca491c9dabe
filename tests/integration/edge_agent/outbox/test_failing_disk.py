"""The outbox on a disk whose syncs fail for a while, on the file system of the fault programme."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.faults.powercut.disk import PowerCutDisk
from bench.faults.powercut.rules import Call, Rule
from contract.status import Lane, RowClass
from edge_agent.clock import SystemClock
from edge_agent.outbox.store import Outbox
from edge_agent.settings import OutboxSettings
from edge_agent.types import Commit, NewRow

pytestmark = pytest.mark.needs_fuse
CLOCK = SystemClock()


async def opened(folder: Path) -> Outbox:
    outbox = await Outbox.open(folder, settings=OutboxSettings(), clock=CLOCK)
    await outbox.recover()
    return outbox


async def kept(outbox: Outbox) -> list[bytes]:
    rows = await outbox.read(Lane.TEL, after=0, max_bytes=1 << 20, max_rows=1000)
    return [row.body[:1] for row in rows]


def row(fill: bytes) -> NewRow:
    return NewRow(RowClass.RAW, fill * 100, 4)


@pytest.mark.parametrize("path", ["*-wal", "*"])
async def test_a_commit_whose_syncs_fail_for_a_while_is_stored_exactly_once(tmp_path, path):
    async with PowerCutDisk(tmp_path / "disk", root=tmp_path / "data") as disk:
        outbox = await opened(disk.root)
        await outbox.submit(Commit(rows=(row(b"0"),)))
        await disk.set_rules(Rule((Call.SYNC,), path, error="EIO"))
        waiting = [outbox.submit(Commit(rows=(row(b"%d" % n),))) for n in (1, 2, 3)]
        await asyncio.sleep(1.2)  # long enough for several tries
        assert not any(future.done() for future in waiting)
        assert outbox.state().fault
        await disk.set_rules()
        async with asyncio.timeout(10):
            await asyncio.gather(*waiting)
        assert await kept(outbox) == [b"0", b"1", b"2", b"3"]
        await outbox.close()


async def test_what_was_not_confirmed_is_not_there_after_a_power_cut_and_what_was_is(tmp_path):
    async with PowerCutDisk(tmp_path / "disk", root=tmp_path / "data") as disk:
        outbox = await opened(disk.root)
        await outbox.submit(Commit(rows=(row(b"0"),)))
        await disk.set_rules(Rule((Call.SYNC,), "*-wal", error="EIO"))
        waiting = outbox.submit(Commit(rows=(row(b"1"),)))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await disk.cut()
        closing = asyncio.create_task(outbox.close())
        await disk.mount()
        await asyncio.gather(closing, return_exceptions=True)
        again = await opened(disk.root)
        assert (await kept(again))[:1] == [b"0"]
        await again.close()
