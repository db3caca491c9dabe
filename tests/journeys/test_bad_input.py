"""Bad input through a real broker: each counted with a reason and sampled, its neighbours unharmed."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from bench.servers import Mosquitto, NatsServer
from bench.stack import Agent, Hub, command, waiting_rows
from contract.trust import ReadingFlag
from tests.journeys.field import Message, publish

PLANT = """
[[stream]]
name = "plant/{1}"
topic = "plant/+"
channels = {a = {min = 0, max = 100}, b = {min = 0, max = 100}}
"""
OLD = """
[[stream]]
name = "old/{1}"
topic = "old/+"
channels = {a = {}}
"""
NEXT_CENTURY_S = 4_070_908_800.0
USELESS = {
    "bad_json": (b"{", b'{"a": 1,}', b"12 monkeys"),
    "wrong_type": (b'{"a": true, "b": "open"}', b'{"a": [1], "b": {}}', b'"text"'),
    "out_of_range": (b'{"a": -1, "b": 101}',),
    "no_values": (b'{"x": 1}', b"[]"),
    "too_large": (b'{"a": 1, "b": 2, "c": "' + b"x" * 1024 * 1024 + b'"}',),
    "too_deep": (b"[" * 10_000, b'{"a": 1, "b":' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
    "bad_text": (b'{"a": 1, "b": 2, "c": "\xff"}', b"\xc3\x28"),
}
"""Payloads that lead to no reading, by the reason for it."""
FLAGGED = {
    "not_a_number": b'{"a": NaN, "b": 2}',
    "out_of_range": b'{"a": 1, "b": 1000}',
    "time_untrusted": b'{"time": 5, "a": 1, "b": 2}',
}


def good(count: int) -> list[Message]:
    """Readings of three streams, each with a time of its own."""
    now_s = time.time() - 1.0
    return [
        (
            f"plant/{index % 3}",
            json.dumps({"time": now_s + index / 1000, "a": index % 100, "b": 1.5}).encode(),
        )
        for index in range(count)
    ]


def bad() -> list[Message]:
    """All that is bad, on the topics of good streams; and a topic that no stream claims."""
    found: list[Message] = [("plant/0", each) for all_of in USELESS.values() for each in all_of]
    found += [("plant/1", each) for each in FLAGGED.values()]
    late = json.dumps({"time": NEXT_CENTURY_S, "a": 1, "b": 2}).encode()
    return [*found, ("plant/2", late), ("old/1", b'{"a": 1}'), ("old/2", b'{"a": 2}')]


def mixed(some: list[Message], others: list[Message]) -> list[Message]:
    """Two of the one, one of the other, to the end of both."""
    found: list[Message] = []
    for index, message in enumerate(some):
        found.append(message)
        if index % 2 and index // 2 < len(others):
            found.append(others[index // 2])
    return found


async def with_an_old_subscription(agent: Agent) -> None:
    """A run of the past, whose filter the broker still remembers."""
    agent.configure(PLANT + OLD)
    await agent.start()
    await agent.stop()
    agent.configure(PLANT)


async def judge_status(agent: Agent, status: dict[str, Any], expected: dict[str, int]) -> None:
    assert status["faults"] == expected
    for fault in expected:
        samples = status["quarantine"]["samples"][fault]
        assert 0 < len(samples) <= 5
        assert all(sample["topic"] and sample["detail"] for sample in samples), fault
        assert all(len(sample["payload"]) <= 1000 for sample in samples)
    text = await command("edge-agent", "status", "--config", agent.config)
    for fault, count in expected.items():
        assert f"{fault} {count}" in text
        assert f"{fault}: " in text, "a sample stands below the counts"


async def judge_stored(hub: Hub, sent: list[Message], begin_s: float) -> None:
    """Good readings once each; flagged ones with what is left of them, at their arrival."""
    answer = await hub.ask("telemetry", "query", "--device", "journey", "--limit", 10_000)
    readings = [(each["stream"], each["time_s"]) for each in answer["readings"]]
    wanted = [(topic, json.loads(payload)["time"]) for topic, payload in sent]
    assert sorted(readings) == sorted(set(readings)), "a reading is stored twice"
    assert set(wanted) <= set(readings)
    for each in answer["readings"]:
        # Whether this machine's clock is synchronised is not the point here.
        each["flags"] &= ~ReadingFlag.CLOCK_UNTRUSTED
    odd = [each for each in answer["readings"] if each["flags"]]
    assert len(readings) == len(wanted) + len(odd)
    rejected = [each for each in odd if each["flags"] == ReadingFlag.CHANNEL_REJECTED]
    assert [each["values"] for each in rejected] == [{"a": None, "b": 2}, {"a": 1, "b": None}]
    untrusted = [each for each in odd if each["flags"] == ReadingFlag.TIME_UNTRUSTED]
    assert [each["values"] for each in untrusted] == [{"a": 1, "b": 2}] * 2
    assert all(each["own_s"] not in (None, each["time_s"]) for each in untrusted)
    for each in untrusted:
        assert each["time_s"] == each["arrival_s"]
        assert begin_s < each["time_s"] < time.time()


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(60)
async def test_bad_input_is_counted_sampled_and_acknowledged_and_its_neighbours_are_unharmed(
    tmp_path: Path, mosquitto_broker: Mosquitto, hub_nats: NatsServer
) -> None:
    broker = f"mqtt://{mosquitto_broker.host}:{mosquitto_broker.port}"
    hub = Hub(tmp_path / "hub", hub_nats)
    agent = Agent(tmp_path / "device", broker=broker, hub=hub_nats.url)
    sent, junk = good(120), bad()
    expected = {fault: len(payloads) for fault, payloads in USELESS.items()}
    expected["out_of_range"] = 2 + 1  # two channels of one reading, one of another
    expected |= {"not_a_number": 1, "time_untrusted": 2, "no_stream": 2}
    try:
        await with_an_old_subscription(agent)
        messages = mixed(sent, junk)
        assert len(messages) == len(sent) + len(junk)
        begin_s = time.time()
        await publish(mosquitto_broker.host, mosquitto_broker.port, messages)
        await asyncio.gather(hub.start(), agent.start())
        status = await agent.status_when(
            lambda now: now["messages"] >= len(messages) and waiting_rows(now) == 0
        )
        assert status["messages"] == len(messages)
        assert status["readings"] == len(sent) + 4
        await judge_status(agent, status, expected)
        (link,) = status["brokers"]
        assert link["acknowledged"] == link["received"] == len(messages)
        await judge_stored(hub, sent, begin_s)

        # Nothing of it comes again, and the filter that nobody wants any more brings nothing new.
        await agent.restart()
        more = [("old/1", b'{"a": 3}'), *good(1)]
        await publish(mosquitto_broker.host, mosquitto_broker.port, more)
        status = await agent.status_when(lambda now: now["readings"] == 1)
        assert status["messages"] == 1
        assert status["repeated"] == 0
        assert status["faults"] == {}
    finally:
        await agent.kill()
        await hub.stop()
