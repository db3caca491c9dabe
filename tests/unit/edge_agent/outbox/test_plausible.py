import pytest

from contract.messages import Watermark
from contract.status import Lane, RowClass
from edge_agent.outbox.cursor import plausible
from edge_agent.types import Commit, NewRow


@pytest.mark.parametrize("applied", [0, 9, 10, 60])
def test_a_mark_near_what_was_given_is_believed(applied: int):
    assert plausible(Watermark("e", applied, ((3, 4),)), next_seq=10)


@pytest.mark.parametrize("applied", [-1, 10**6, 2**53 + 1, 2**63, 2**64 - 1])
def test_a_mark_far_from_what_was_given_is_not(applied: int):
    assert not plausible(Watermark("e", applied), next_seq=10)


@pytest.mark.parametrize("missing", [(0, 4), (-3, 4), (5, 4), (1, 2**63)])
def test_a_range_that_is_none_is_not_believed(missing: tuple[int, int]):
    assert not plausible(Watermark("e", 5, (missing,)), next_seq=10)


async def test_nonsense_is_neither_stored_nor_fatal(open_outbox):
    outbox = await open_outbox()
    await outbox.submit(Commit(rows=(NewRow(RowClass.ALARM, b"x"),)))
    epoch = outbox.state().epoch
    for applied in (2**63 - 1, 2**63, -1):
        await outbox.apply(Lane.EVT, Watermark(epoch, applied))
    assert outbox.state().lanes[Lane.EVT].applied == 0
    assert await outbox.submit(Commit(rows=(NewRow(RowClass.ALARM, b"y"),))) == 0
