"""A server that takes nothing over a sound connection is told of once, and so is its end."""

import pytest
from structlog.testing import capture_logs

from edge_agent.observe.events import Event
from edge_agent.outbox import forwarder
from edge_agent.types import Commit
from tests.unit.edge_agent.outbox.conftest import raw, until
from tests.unit.edge_agent.outbox.hub_twin import HubTwin
from tests.unit.edge_agent.outbox.test_forwarder import forwarding, sent


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(forwarder, "_STALLED_S", 1.0)
    monkeypatch.setattr(forwarder, "_PAUSES_S", (0.1,))


async def test_a_server_that_acknowledges_nothing_is_warned_of_once(open_outbox):
    outbox, twin = await open_outbox(), HubTwin(lose=1.0)
    await outbox.submit(Commit(rows=(raw(),)))
    with capture_logs() as logs:
        async with forwarding(outbox, twin):
            await until(lambda: any(line["event"] == Event.OUTBOX_STALLED for line in logs))
            messages = twin.messages
            await until(lambda: twin.messages > messages + 3)
            twin.lose = 0.0
            await until(lambda: sent(outbox) == 1)
    told = [(line["event"], line["log_level"]) for line in logs if line.get("lane") == "tel"]
    assert told == [
        (Event.OUTBOX_SEND_FAILED, "info"),
        (Event.OUTBOX_STALLED, "warning"),
        (Event.OUTBOX_FLOWS, "info"),
    ]


async def test_a_lost_connection_is_the_links_to_tell(open_outbox):
    outbox, twin = await open_outbox(), HubTwin(cut=1.0)
    await outbox.submit(Commit(rows=(raw(),)))
    with capture_logs() as logs:
        async with forwarding(outbox, twin):
            await until(lambda: twin.messages > 15)
    assert not [line for line in logs if line["event"] == Event.OUTBOX_STALLED]
