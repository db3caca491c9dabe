"""What a broker session promises about messages, on both brokers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bench.servers import mosquitto, nats_server
from edge_agent.sources.mqtt import MqttSource
from tests.integration.edge_agent.mqtt.conftest import Broker
from tests.integration.edge_agent.mqtt.field import (
    STATUS_TOPIC,
    Sensor,
    payloads,
    publish,
    sensor,
    station,
    topics,
    until,
)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


@pytest.mark.parametrize("qos", [0, 1])
async def test_messages_come_in_order_with_all_their_columns(broker: Broker, qos: int):
    async with station(broker.port) as here, sensor(broker.port) as source:
        await source.send_all("site/a", numbered(300), qos=qos)
        batches = await here.take(300)
        assert payloads(batches) == numbered(300)
        assert set(topics(batches)) == {"site/a"}
        for batch in batches:
            assert set(batch.qos) == {qos}
            assert all((mid > 0) == (qos > 0) for mid in batch.mids)
            assert not any(batch.dup)
            assert batch.session == here.session.name
            assert len(batch.arrivals_ns) == len(batch.arrivals_s) == len(batch)


async def test_what_is_not_acknowledged_comes_again_with_dup(broker: Broker):
    async with station(broker.port) as here, sensor(broker.port) as source:
        await source.send_all("site/a", numbered(5), qos=1)
        first = await here.take(5, acknowledge=False)
        assert payloads(first) == numbered(5)
        await here.vanish()
        async with station(broker.port) as again:
            second = await again.take(5)
            assert sorted(payloads(second)) == numbered(5)
            assert all(all(batch.dup) for batch in second)
            assert sorted(mid for batch in second for mid in batch.mids) == sorted(
                mid for batch in first for mid in batch.mids
            )
            await source.send_all("site/a", [b"next"], qos=1)
            assert payloads([await again.next_batch()]) == [b"next"]


async def test_what_was_acknowledged_does_not_come_again(broker: Broker):
    async with sensor(broker.port) as source:
        async with station(broker.port) as here:
            await source.send_all("site/a", numbered(40), qos=1)
            await here.take(40)
        await source.send_all("site/a", [b"while away"], qos=1)
        async with station(broker.port) as again:
            assert payloads([await again.next_batch()]) == [b"while away"]


async def test_an_acknowledgement_of_an_earlier_connection_is_not_sent(broker: Broker):
    async with station(broker.port) as here, sensor(broker.port) as source:
        await source.send_all("site/a", [b"precious"], qos=1)
        stale = await here.next_batch()
        here.session._connection.client.drop("cut by the test")
        await here.connected(connections=2)
        here.source.acknowledge(stale)
        assert here.session.state().stale_acknowledgements == 1
        again = await here.next_batch()
        assert (again.payloads, again.dup) == ([b"precious"], [True])
        here.source.acknowledge(again)
        assert here.session.state().acknowledged == 1


async def test_a_repetition_of_what_is_in_hand_is_not_taken_again_and_acknowledged_once(
    tmp_path: Path,
):
    async with (
        nats_server(tmp_path, mqtt=True) as server,
        station(server.mqtt_port) as here,
        sensor(server.mqtt_port) as source,
    ):
        await source.send_all("site/a", numbered(3), qos=1)
        first = await here.take(3, acknowledge=False)
        await asyncio.sleep(3)  # the broker repeats after its ack_wait of 2 s
        for batch in first:
            here.source.acknowledge(batch)
        assert here.session.state().acknowledged == 3
        await source.send_all("site/a", [b"next"], qos=1)
        assert payloads([await here.next_batch()]) == [b"next"]
        assert here.session.state().received == 4


async def test_a_broker_that_is_killed_is_found_again(broker: Broker):
    async with station(broker.port) as here:
        async with sensor(broker.port) as source:
            await source.send_all("site/a", [b"before"], qos=1)
            await here.take(1)
        await broker.server.kill()
        await until(lambda: not here.session.state().connected)
        assert here.session.state().why
        await asyncio.sleep(0.5)
        await broker.server.start()
        await here.connected(connections=2)
        await asyncio.sleep(0.1)
        async with sensor(broker.port) as source:
            await source.send_all("site/a", [b"after"], qos=1)
            seen: list[bytes] = []
            while b"after" not in seen:  # a broker that was killed may repeat what it had sent
                seen += payloads([await here.next_batch()])
            assert set(seen) <= {b"before", b"after"}


async def test_a_broker_that_is_absent_at_first_is_found(broker: Broker):
    await broker.server.stop()
    async with station(broker.port, wait=False) as here:
        await until(lambda: "refused" in here.session.state().why.lower())
        here.session.publish("out/lost", b"", qos=0)
        here.session.publish("out/kept", b"kept", qos=1, retain=True)
        await broker.server.start()
        async with sensor(broker.port) as listener:
            await listener.subscribe("out/#")
            await here.connected()
            assert (await listener.next_message())[:2] == ("out/kept", b"kept")
        state = here.session.state()
        assert state.dropped == 1


async def test_the_status_is_online_and_then_offline_however_it_ends(broker: Broker):
    async with sensor(broker.port, "watcher") as watcher:
        await watcher.subscribe(STATUS_TOPIC)
        async with station(broker.port):
            assert (await watcher.next_message())[1] == b"online"
            async with sensor(broker.port, "late") as late:
                await late.subscribe(STATUS_TOPIC)
                assert await late.next_message() == (STATUS_TOPIC, b"online", True)
        assert (await watcher.next_message())[1] == b"offline"
        async with station(broker.port) as here:
            assert (await watcher.next_message())[1] == b"online"
            await here.vanish()
            assert (await watcher.next_message())[1] == b"offline"


async def test_memory_is_bounded_and_nothing_is_lost_while_nobody_takes(broker: Broker):
    bounds: dict[str, Any] = {"max_batch_messages": 50, "max_buffered_messages": 200}
    async with station(broker.port, keepalive_s=2, **bounds) as here, sensor(broker.port) as source:
        sending = asyncio.create_task(source.send_all("site/a", numbered(600), qos=1))
        await until(lambda: here.session.state().paused)
        await asyncio.sleep(4.5)  # longer than twice the keepalive
        state = here.session.state()
        assert state.connected, state.why
        assert state.waiting <= 201
        # nats-server repeats what is not acknowledged within its ack_wait of 2 s, and may set DUP
        # on what it has never sent: only the set of messages is sure.
        seen: set[bytes] = set()
        while len(seen) < 600:
            batch = await here.next_batch()
            assert len(batch) <= 50
            seen.update(batch.payloads)
            here.source.acknowledge(batch)
        assert seen == set(numbered(600))
        await sending
        assert here.session.state().connections == 1


async def test_a_stopped_session_hands_over_the_rest_and_takes_no_more(broker: Broker):
    async with sensor(broker.port) as source:
        async with station(broker.port) as here:
            await source.send_all("site/a", numbered(3), qos=1)
            await until(lambda: here.session.state().waiting == 3)
            here.session.stop()
            await source.send_all("site/a", [b"too late"], qos=1)
            await asyncio.sleep(0.2)
            await here.take(3)
            assert await asyncio.wait_for(here.source.next_batch(), 1) is None
        async with station(broker.port) as again:
            assert payloads([await again.next_batch()]) == [b"too late"]


@pytest.mark.needs_mosquitto
async def test_several_brokers_are_one_source(tmp_path: Path):
    async with (
        mosquitto(tmp_path) as one,
        nats_server(tmp_path, mqtt=True) as two,
        station(one.port) as first,
        station(two.mqtt_port) as second,
        sensor(one.port) as left,
        sensor(two.mqtt_port) as right,
    ):
        source = MqttSource([first.session, second.session])
        await left.send_all("site/left", numbered(10), qos=1)
        await right.send_all("site/right", numbered(10), qos=1)
        seen: dict[str, set[str | None]] = {}
        for _ in range(20):
            if sum(s.session.state().acknowledged for s in (first, second)) == 20:
                break
            batch = await asyncio.wait_for(source.next_batch(), 5)
            assert batch is not None
            seen.setdefault(batch.session, set()).update(batch.topics)
            source.acknowledge(batch)
        assert seen == {
            first.session.name: {"site/left"},
            second.session.name: {"site/right"},
        }


@pytest.mark.needs_mosquitto
async def test_a_payload_of_a_mebibyte_is_kept_as_it_came(tmp_path: Path):
    big = bytes(range(256)) * 4096
    async with (
        mosquitto(tmp_path) as server,
        station(server.port) as here,
        sensor(server.port) as source,
    ):
        await source.send_all("site/big", [big, b"small"], qos=1)
        assert payloads(await here.take(2)) == [big, b"small"]


async def test_a_sensor_whose_topic_is_not_utf_8_harms_nobody_else(broker: Broker):
    async with station(broker.port) as here, sensor(broker.port, "good") as good:
        async with sensor(broker.port, "bad") as bad:
            await bad.send(publish(b"site/\xff\xfe", b"odd"))
            await good.send_all("site/good", [b"1"], qos=1)
            assert topics([await here.next_batch()])[-1] == "site/good"
        assert here.session.state().connections == 1


async def test_a_frozen_broker_is_given_up_and_found_again(broker: Broker):
    async with station(broker.port, keepalive_s=1) as here:
        broker.server.freeze()
        await until(lambda: not here.session.state().connected, timeout_s=8)
        broker.server.thaw()
        await here.connected(connections=2)


async def test_alarms_wait_for_the_broker_within_a_bound(broker: Broker):
    async with station(broker.port, max_queued_messages=5) as here:
        await broker.server.kill()
        await until(lambda: not here.session.state().connected)
        for number in range(20):
            here.session.publish(f"out/{number}", b"%d" % number, qos=1, retain=True)
        dropped = here.session.state().dropped
        assert dropped == 15
        await broker.server.start()
        async with sensor(broker.port) as listener:
            await listener.subscribe("out/#")
            received = {await _payload(listener) for _ in range(5)}
        assert received == set(numbered(5))


async def _payload(listener: Sensor) -> bytes:
    return (await listener.next_message(timeout_s=10))[1]
