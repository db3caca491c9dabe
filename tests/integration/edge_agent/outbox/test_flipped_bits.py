"""One bit flipped anywhere in the spool: found or harmless, and what is lost is declared exactly."""

import asyncio
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from contract.encoding import EncodingError, decode
from contract.messages import Gap
from contract.status import Lane, RowClass
from edge_agent.clock import SystemClock
from edge_agent.outbox.gaps import covers
from edge_agent.outbox.store import Outbox
from edge_agent.settings import OutboxSettings
from edge_agent.types import Checkpoint, Commit, NewRow, Packets
from tests.unit.edge_agent.outbox.ledger import rows_of

CLOCK = SystemClock()
FLIPS = 60
Rows = dict[tuple[Lane, int], tuple[RowClass, bytes, int]]


async def opened(folder: Path) -> Outbox:
    outbox = await Outbox.open(folder, settings=OutboxSettings(), clock=CLOCK)
    await outbox.recover()
    return outbox


async def all_rows(outbox: Outbox) -> Rows:
    return {
        (lane, row.seq): (row.kind, row.body, row.readings)
        for lane in (Lane.TEL, Lane.BULK, Lane.EVT)
        for row in await rows_of(outbox, lane)
    }


async def write_sound(folder: Path) -> Rows:
    outbox = await opened(folder)
    chance = random.Random(1)
    for n in range(60):
        rows = [
            NewRow(kind, chance.randbytes(chance.choice([40, 400, 5000])), readings, model)
            for kind, readings, model in (
                (RowClass.RAW, chance.randint(1, 256), ""),
                (RowClass.VERDICT, 0, ""),
                (RowClass.ESCALATION, 0, "m"),
                (RowClass.ALARM, 0, ""),
            )
        ]
        ids = np.arange(n * 8 + 1, n * 8 + 9, dtype=np.uint16)
        packets = Packets("session", ids, ids.astype(np.uint64) << np.uint64(40))
        states = (Checkpoint(f"s{n % 5}", chance.randbytes(200)),)
        await outbox.submit(Commit(rows=tuple(rows), packets=(packets,), checkpoints=states))
    await outbox.set_aside(Lane.TEL, 7, "a gap that is there before")
    sound = await all_rows(outbox)
    await outbox.close()
    return sound


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(5))
async def test_a_flipped_bit_is_found_or_harmless_and_its_range_is_declared(tmp_path, seed):
    sound = await write_sound(tmp_path / "sound")
    path = tmp_path / "outbox"
    chance = random.Random(seed)
    for flip in range(FLIPS):
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        await asyncio.to_thread(shutil.copytree, tmp_path / "sound", path)
        data = bytearray(await asyncio.to_thread((path / "spool.db").read_bytes))
        bit = chance.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        await asyncio.to_thread((path / "spool.db").write_bytes, bytes(data))
        where = f"flip {flip} of seed {seed}: bit {bit} (page {bit // 8 // 4096 + 1})"
        async with asyncio.timeout(30):
            outbox = await opened(path)
            found = await all_rows(outbox)
            found = await all_rows(outbox)  # what was declared on the way is there now
            state = outbox.state()
            await outbox.close()
        new = {key: row for key, row in found.items() if key not in sound}
        assert all(kind is RowClass.GAP for kind, _, _ in new.values()), where
        gaps = declared(found)
        for key, row in sound.items():
            if key in found:
                # A gap record that nobody has seen yet may have been widened.
                assert found[key] == row or row[0] is RowClass.GAP, where
            else:
                assert any(covers(gap, key[1]) for gap in gaps if gap.lane is key[0]), where
        lost = sum(row[2] for key, row in sound.items() if key not in found)
        known = sum(gap.readings for gap in gaps) - sum(gap.readings for gap in declared(sound))
        assert known == lost or not all(gap.exact for gap in gaps), where
        assert state.fault == "", where


def declared(rows: Rows) -> list[Gap]:
    gaps = []
    for kind, body, _ in rows.values():
        if kind is RowClass.GAP:
            try:
                gaps.append(decode(body, Gap))
            except EncodingError:
                raise AssertionError("a damaged gap record was read") from None
    return gaps
