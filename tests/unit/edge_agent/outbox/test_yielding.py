"""A drain makes way while the event loop is late, and never stands still."""

import asyncio

from contract.status import Lane, RowClass
from edge_agent.outbox.yielding import TOLERATED_S, Yielding
from edge_agent.types import Commit, NewRow
from tests.unit.edge_agent.outbox.conftest import raw, until
from tests.unit.edge_agent.outbox.hub_twin import HubTwin
from tests.unit.edge_agent.outbox.test_forwarder import forwarding, sent


def test_a_loop_that_is_in_time_holds_nothing_back():
    yielding = Yielding()
    for tick in range(100):
        yielding.note(0.9 * TOLERATED_S, now_s=float(tick))
    assert yielding.free_at_s == 0.0


def test_a_late_loop_holds_the_drain_back_but_not_for_longer_than_a_moment():
    slightly, badly = Yielding(), Yielding()
    slightly.note(0.026, now_s=10.0)
    badly.note(5.0, now_s=10.0)
    assert 10.0 < slightly.free_at_s <= badly.free_at_s == 10.04


def test_a_pause_is_not_prolonged_while_it_lasts():
    yielding = Yielding()
    yielding.note(5.0, now_s=10.0)
    yielding.note(5.0, now_s=10.03)
    assert yielding.free_at_s == 10.04


def test_one_late_moment_fades():
    yielding = Yielding()
    yielding.note(0.05, now_s=0.0)
    for tick in range(1, 20):
        yielding.note(0.0, now_s=float(tick))
    assert yielding.free_at_s < 5.0


async def test_only_a_backlog_makes_way_not_events(open_outbox):
    outbox, twin = await open_outbox(), HubTwin()
    await outbox.submit(Commit(rows=(raw(), NewRow(RowClass.ALARM, b"a"))))
    async with forwarding(outbox, twin) as forwarder:
        forwarder._yielding.free_at_s = asyncio.get_running_loop().time() + 0.4
        await until(lambda: sent(outbox, Lane.EVT) == 1)
        assert sent(outbox) == 0
        await until(lambda: sent(outbox) == 1)
