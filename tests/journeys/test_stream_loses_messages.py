"""The hub's server loses messages that it had acknowledged: the hub finds which, and the device brings them again."""

import asyncio
import time
from pathlib import Path
from typing import Any

import nats
import pytest

from bench.servers import NatsServer
from bench.stack import (
    SIMULATED,
    Agent,
    Hub,
    acknowledged,
    finished,
    simulator,
    start,
    waiting_rows,
)
from contract.encoding import decode, expand
from contract.messages import RowMessage
from contract.subjects import ENCODING

MESSAGES = 900
REPAIRED_S = 60
"""From the hub's return to the last row, with the intervals that a device has by default."""
STREAM = f"""
[[stream]]
name = "sim"
topic = "sim/+"
time = "recorded"
{SIMULATED}
"""


def _all_sent(status: dict[str, Any]) -> bool:
    tel = status["outbox"]["lanes"]["tel"]
    return bool(tel["sent"] == tel["next_seq"] - 1 > 0)


async def _lose(server: NatsServer) -> list[tuple[int, int]]:
    """Deletes the second, the middle and the last message of the stream; returns the rows that were in them."""
    client = await nats.connect(server.url)
    try:
        jetstream = client.jetstream()
        state = (await jetstream.stream_info("EDGE_TEL")).state
        assert state.messages >= 5, "too few messages to lose some"
        rows = []
        middle = (state.first_seq + state.last_seq) // 2
        for number in (state.first_seq + 1, middle, state.last_seq):
            found = await jetstream.get_msg("EDGE_TEL", number)
            assert found.data is not None
            plain = expand(found.data, (found.headers or {}).get(ENCODING, ""))
            message = decode(plain, RowMessage)
            rows.append((message.rows[0].seq, message.rows[-1].seq))
            await jetstream.delete_msg("EDGE_TEL", number)
        return rows
    finally:
        await client.close()


@pytest.mark.timeout(120)
async def test_rows_that_the_server_lost_after_acknowledging_them_are_found_and_refilled(
    tmp_path: Path, field_nats: NatsServer, hub_nats: NatsServer
):
    broker, ledger = f"mqtt://{field_nats.host}:{field_nats.mqtt_port}", tmp_path / "sent.ndjson"
    hub = Hub(tmp_path / "hub", hub_nats)
    keys = {"hub": {"drain_state_interval_s": 10}}
    agent = Agent(tmp_path / "agent", broker=broker, hub=hub_nats.url, extra=STREAM, keys=keys)
    try:
        await hub.start()
        await hub.kill()
        await agent.start()
        sensors = await start(simulator(broker, ledger, messages=MESSAGES, rate=500))
        assert await finished(sensors) == MESSAGES
        await agent.status_when(_all_sent)
        lost = await _lose(hub_nats)
        began_s = time.monotonic()
        await hub.start()
        stored = await hub.wait_for(MESSAGES, timeout_s=REPAIRED_S)
        took_s = time.monotonic() - began_s
        await agent.status_when(lambda status: waiting_rows(status) == 0, timeout_s=20)
        wanted = await asyncio.to_thread(acknowledged, ledger)
        log = await asyncio.to_thread(agent.log)
        again = [
            (line["first"], line["last"])
            for line in log
            if line["event"] == "outbox_sent_again" and line["lane"] == "tel"
        ]
    finally:
        await agent.stop()
        await hub.stop()
    assert set(stored) == wanted
    assert max(stored.values()) == 1
    print(f"repaired in {took_s:.1f} s")
    assert took_s <= REPAIRED_S
    for first, last in again:
        assert any(low <= first and last <= high for low, high in lost), (again, lost)
