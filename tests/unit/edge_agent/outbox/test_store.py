import asyncio

import numpy as np
import pytest

from contract.encoding import decode
from contract.messages import Gap, Watermark
from contract.status import Lane, RowClass
from edge_agent.errors import StoreError
from edge_agent.outbox.recall import KEPT_PACKETS
from edge_agent.types import Checkpoint, Commit, NewRow, Packets, Round
from tests.unit.edge_agent.outbox.conftest import raw, until, whole_round


async def rows_of(outbox, lane=Lane.TEL, after=0):
    found = []
    while rows := await outbox.read(lane, after=after, max_bytes=100_000, max_rows=100):
        found += rows
        after = rows[-1].seq
    return found


async def test_commits_are_stored_in_order_and_tell_the_number_of_their_last_tel_row(open_outbox):
    outbox = await open_outbox()
    futures = [outbox.submit(Commit(rows=(raw(fill=b"a"), raw(fill=b"b")))) for _ in range(50)]
    futures.append(outbox.submit(Commit(rows=(NewRow(RowClass.ALARM, b"!"),))))
    assert await asyncio.gather(*futures) == [*range(2, 101, 2), 100]
    rows = await rows_of(outbox)
    assert [row.seq for row in rows] == list(range(1, 101))
    assert [row.body[:1] for row in rows] == [b"a", b"b"] * 50


async def test_everything_of_a_commit_is_there_after_a_restart(open_outbox):
    outbox = await open_outbox()
    packets = Packets("s1", np.array([7, 9], np.uint16), np.array([1 << 63, 5], np.uint64))
    await outbox.submit(
        Commit(
            rows=(raw(), NewRow(RowClass.ESCALATION, b"e", model="m")),
            packets=(packets,),
            checkpoints=(Checkpoint("pump/1", b"c1"),),
            pending=(("v1", b"p1"), ("v2", b"p2")),
        )
    )
    await outbox.submit(Commit(rows=(raw(fill=b"z"),), settled=("v1",)))
    epoch = outbox.state().epoch
    await outbox.close()

    outbox = await open_outbox()
    recovery = await outbox.recover()
    assert recovery.epoch == outbox.state().epoch == epoch
    assert recovery.checkpoints == {"pump/1": (1, b"c1")}
    assert recovery.pending == (("v2", b"p2"),)
    assert [row.seq for row in recovery.rows] == [1, 2]
    (again,) = recovery.packets
    assert again.session == "s1"
    assert again.mids.tolist() == [7, 9]
    assert again.hashes.tolist() == [1 << 63, 5]
    (row,) = await outbox.read(Lane.BULK, after=0, max_bytes=1000, max_rows=10)
    assert (row.model, row.body, row.kind) == ("m", b"e", RowClass.ESCALATION)
    assert outbox.starts == 2


async def test_a_round_moves_the_floor_and_lets_applied_rows_go(open_outbox):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(),) * 10))
    await outbox.apply(Lane.TEL, Watermark(outbox.state().epoch, 10))
    assert outbox.state().lanes[Lane.TEL].rows == 10
    assert outbox.state().lanes[Lane.TEL].applied == 10
    await outbox.submit(whole_round(raw()))
    await until(lambda: outbox.state().lanes[Lane.TEL].rows == 1)
    assert [row.seq for row in (await outbox.recover()).rows] == []
    assert outbox.state().lanes[Lane.TEL].first_kept == 11


async def test_a_round_in_parts_moves_the_floor_to_its_begin(open_outbox):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(),) * 3))
    await outbox.submit(Commit(rows=(raw(),), round=Round.BEGIN))
    await outbox.submit(Commit(rows=(raw(),), checkpoints=(Checkpoint("a", b"1"),)))
    assert [row.seq for row in (await outbox.recover()).rows] == [1, 2, 3, 4, 5]
    await outbox.submit(
        Commit(rows=(raw(),), checkpoints=(Checkpoint("b", b"2"),), round=Round.END)
    )
    recovery = await outbox.recover()
    assert [row.seq for row in recovery.rows] == [5, 6]
    assert recovery.checkpoints == {"a": (5, b"1"), "b": (6, b"2")}


async def test_a_round_is_due_after_enough_bytes_and_not_after_a_round(open_outbox):
    outbox = await open_outbox()
    assert not outbox.checkpoint_due()
    for _ in range(30):
        await outbox.submit(Commit(rows=(raw(size=1000),) * 10))
    assert outbox.checkpoint_due()
    await outbox.submit(whole_round())
    assert not outbox.checkpoint_due()


async def test_a_cancelled_caller_changes_nothing(open_outbox):
    outbox = await open_outbox()
    future = outbox.submit(Commit(rows=(raw(),)))
    future.cancel()
    reader = asyncio.create_task(outbox.read(Lane.TEL, after=0, max_bytes=1000, max_rows=10))
    await asyncio.sleep(0)
    reader.cancel()
    assert await outbox.submit(Commit(rows=(raw(),))) == 2
    assert len(await rows_of(outbox)) == 2


async def test_ready_waits_while_too_many_commits_are_queued(open_outbox):
    outbox = await open_outbox(max_queue_commits=4)
    futures = [outbox.submit(Commit(rows=(raw(),))) for _ in range(4)]
    waiting = asyncio.create_task(outbox.ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    await asyncio.gather(*futures)
    await waiting


async def test_submitting_without_waiting_is_refused_in_the_end(open_outbox):
    outbox = await open_outbox(max_queue_commits=2)
    futures = [outbox.submit(Commit(rows=(raw(),))) for _ in range(4 + 1024)]
    with pytest.raises(StoreError, match="ready"):
        outbox.submit(Commit(rows=(raw(),)))
    await asyncio.gather(*futures)


async def test_closing_stores_what_is_queued_and_refuses_what_comes_after(open_outbox):
    outbox = await open_outbox()
    future = outbox.submit(Commit(rows=(raw(),)))
    await outbox.close()
    assert future.result() == 1
    with pytest.raises(StoreError, match="closed"):
        outbox.submit(Commit())
    with pytest.raises(StoreError, match="closed"):
        await outbox.recover()


async def test_a_second_agent_on_the_same_folder_is_refused(open_outbox):
    await open_outbox()
    with pytest.raises(StoreError):
        await open_outbox()


async def test_the_newest_65536_packet_ids_are_kept_and_few_more(open_outbox):
    outbox = await open_outbox()
    ids = np.arange(1000, dtype=np.uint16)
    for n in range(70):
        one = Packets("s", ids, np.full(1000, n, np.uint64))
        await outbox.submit(Commit(packets=(one, Packets("t", ids[:1], ids[:1].astype("u8")))))
    await outbox.close()
    recovery = await (await open_outbox()).recover()
    kept = [int(one.hashes[0]) for one in recovery.packets if one.session == "s"]
    assert kept == list(range(70 - len(kept), 70))
    assert KEPT_PACKETS <= len(kept) * 1000 <= KEPT_PACKETS + 2000
    assert sum(one.session == "t" for one in recovery.packets) == 70


async def test_a_row_set_aside_is_a_dead_letter_and_a_gap(open_outbox):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(3), raw(5), raw(7))))
    await outbox.set_aside(Lane.TEL, 2, "too_large")
    await outbox.set_aside(Lane.TEL, 99, "never was")
    assert [row.seq for row in await rows_of(outbox)] == [1, 3]
    (row,) = await rows_of(outbox, Lane.EVT)
    assert decode(row.body, Gap) == Gap(Lane.TEL, 2, 2, 1, 5, "too_large")
    state = outbox.state()
    assert state.dead_letters == 1
    assert state.shed == {"raw_rows": 1, "raw_readings": 5}
    assert state.lanes[Lane.TEL].readings == 10


async def test_what_the_hub_misses_and_nobody_has_is_declared_once(open_outbox):
    outbox = await open_outbox()
    await outbox.submit(whole_round(*[raw(2)] * 10))
    epoch = outbox.state().epoch
    await outbox.apply(Lane.TEL, Watermark(epoch, 5))
    await until(lambda: outbox.state().lanes[Lane.TEL].rows == 5)
    for _ in range(2):
        await outbox.apply(Lane.TEL, Watermark(epoch, 2, ((3, 7),)))
    gaps = [decode(row.body, Gap) for row in await rows_of(outbox, Lane.EVT)]
    assert [(gap.first, gap.last, gap.reason) for gap in gaps] == [(3, 5, "lost")]


async def test_a_watermark_of_another_epoch_is_ignored(open_outbox):
    outbox = await open_outbox()
    await outbox.submit(whole_round(raw()))
    await outbox.apply(Lane.TEL, Watermark("other", 1))
    assert outbox.state().lanes[Lane.TEL].applied == 0


async def test_marks_survive_a_restart_and_a_number_that_was_handed_out_is_never_given_again(
    open_outbox, tmp_path
):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(),) * 5))
    await outbox.close()
    copy = (tmp_path / "outbox" / "spool.db").read_bytes()
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(),) * 5))
    assert len(await rows_of(outbox)) == 10
    await outbox.mark_sent(Lane.TEL, 8)
    await outbox.close()

    (tmp_path / "outbox" / "spool.db").write_bytes(copy)
    outbox = await open_outbox()
    assert outbox.state().lanes[Lane.TEL].sent == 8
    assert await outbox.submit(Commit(rows=(raw(),))) == 11
    (row,) = await rows_of(outbox, Lane.EVT)
    assert decode(row.body, Gap) == Gap(Lane.TEL, 6, 10, 1, 20, "lost", exact=True)


async def test_a_removed_spool_gets_a_new_epoch(open_outbox, tmp_path):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(raw(),)))
    await rows_of(outbox)
    await outbox.mark_revised(9)
    epoch = outbox.state().epoch
    await outbox.close()
    (tmp_path / "outbox" / "spool.db").unlink()
    outbox = await open_outbox()
    assert outbox.state().epoch != epoch
    assert outbox.state().lanes[Lane.TEL].sent == 0
    assert await outbox.submit(Commit(rows=(raw(),))) == 1
    assert outbox.revised_to == 9
