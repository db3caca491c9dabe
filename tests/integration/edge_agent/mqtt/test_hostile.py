"""A broker session against brokers that misbehave, packet by packet."""

import asyncio
import struct
from typing import Any

import psutil
import pytest

from tests.integration.edge_agent.mqtt.field import (
    CONNACK,
    DISCONNECT,
    PUBACK,
    PUBLISH,
    Peer,
    false_broker,
    greet,
    packet,
    payloads,
    publish,
    station,
    topics,
    until,
)

GOOD = publish("site/good", b"good")


async def hold(peer: Peer) -> None:
    """Acknowledges what is published, and says nothing else until the client leaves."""
    while True:
        kind, body = await peer.receive()
        if kind & 0xF6 == PUBLISH | 2:
            await acknowledge(peer, body)


async def acknowledge(peer: Peer, body: bytes) -> None:
    await peer.send(packet(PUBACK, body[2 + struct.unpack_from("!H", body)[0] :][:2]))


async def test_a_topic_that_is_not_utf_8_is_none():
    async def script(peer: Peer, _number: int) -> None:
        await greet(peer)
        await peer.send(publish(b"site/\xff\xfe", b"odd") + GOOD)
        await hold(peer)

    async with false_broker(script) as port, station(port) as here:
        batches = await here.take(2)
        assert topics(batches) == [None, "site/good"]
        assert payloads(batches) == [b"odd", b"good"]


async def test_acknowledgements_go_out_in_order_and_never_for_an_earlier_connection():
    acknowledged: list[tuple[int, int]] = []
    cut = asyncio.Event()

    async def script(peer: Peer, number: int) -> None:
        await greet(peer)
        for mid in (7, 3, 5):
            content = b"%d of connection %d" % (mid, number)
            await peer.send(publish("site/a", content, qos=1, mid=mid))
        if number == 1:
            await cut.wait()
            return
        while True:
            kind, body = await peer.receive()
            if kind == PUBACK:
                acknowledged.append((number, struct.unpack("!H", body)[0]))
            elif kind & 0xF0 == PUBLISH:
                await acknowledge(peer, body)

    async with false_broker(script) as port, station(port) as here:
        old = await here.take(3, acknowledge=False)
        cut.set()
        await here.connected(connections=2)
        new = await here.take(3, acknowledge=False)
        for batch in old + new:
            here.source.acknowledge(batch)
        await until(lambda: len(acknowledged) >= 3)
        await asyncio.sleep(0.05)
        assert acknowledged == [(2, 7), (2, 3), (2, 5)]
        assert here.session.state().stale_acknowledgements == 3


@pytest.mark.parametrize(
    "attack",
    [
        b"\x00\x00",
        b"\xf0\x00",
        packet(PUBLISH, b"\x00"),
        packet(PUBLISH, b"\xff\xffshort"),
        packet(PUBLISH | 0x06, b"\x00\x01a\x00\x01"),
        packet(PUBLISH, b"\x00\x00payload without a topic"),
        packet(0x90, b"\x00"),
        packet(0x90, b"\x12\x34\xee"),
        packet(PUBACK, b"\x00\x01\x02\x03\x04"),
        packet(PUBACK, b"\xff\xff"),
        packet(CONNACK, b"\x00"),
        packet(CONNACK, b"\x00\x05"),
        packet(0xD0, b"\x01"),
        b"\x30\xff\xff\xff\xff\x7f",
        packet(PUBLISH, b"", claimed=268_435_455)[:5],
        b"",
    ],
    ids=lambda attack: attack[:8].hex() or "hang up",
)
async def test_the_next_good_message_comes_whatever_came_before(attack: bytes):
    async def script(peer: Peer, number: int) -> None:
        await greet(peer)
        if number == 1:
            await peer.send(attack)
            await asyncio.sleep(0.2)
            return
        await peer.send(GOOD)
        await hold(peer)

    before = psutil.Process().memory_info().rss
    async with false_broker(script) as port, station(port, wait=False) as here:
        async with asyncio.timeout(5):
            while b"good" not in payloads([await here.next_batch()]):
                pass
        assert not here.task.done()
    assert psutil.Process().memory_info().rss - before < 8 * 1024 * 1024


async def test_an_endless_packet_is_cut_and_costs_bounded_memory():
    async def script(peer: Peer, _number: int) -> None:
        await greet(peer)
        size = 40 * 1024 * 1024
        head = packet(PUBLISH, b"\x00\x06site/x", claimed=8 + size)
        await peer.send(head)
        for _ in range(size // 65536):
            await peer.send(bytes(65536))
        await peer.send(GOOD)
        await hold(peer)

    async with false_broker(script) as port:
        limit = 1024 * 1024
        async with station(port, max_packet_bytes=limit, max_buffered_bytes=2 * limit) as here:
            batches = await here.take(2)
            assert topics(batches) == ["site/x", "site/good"]
            assert limit - 8 <= len(payloads(batches)[0]) < 30 * limit
            assert here.session.state().connections == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"\x00\x05", "Not authorized"),
        (b"\x00\x04", "Bad user name or password"),
        (b"\x00\x01", "Protocol error"),
        (b"\x00\x02", "Client identifier not valid"),
    ],
)
async def test_a_refusal_is_told_and_tried_again(answer: bytes, why: str):
    async def script(peer: Peer, number: int) -> None:
        if number < 3:
            await peer.expect(0x10)
            await peer.send(packet(CONNACK, answer))
            await hold(peer)
        await greet(peer)
        await hold(peer)

    async with false_broker(script) as port, station(port, wait=False) as here:
        await until(lambda: why in here.session.state().why)
        await here.connected()
        assert here.session.state().why == ""


@pytest.mark.parametrize("silent_after", ["accept", "CONNECT", "SUBSCRIBE"])
async def test_a_broker_that_says_nothing_is_given_up(silent_after: str):
    async def script(peer: Peer, number: int) -> None:
        if number == 1:
            if silent_after != "accept":
                await peer.expect(0x10)
            if silent_after == "SUBSCRIBE":
                await peer.send(packet(CONNACK, b"\0\0"))
            await hold(peer)
        await greet(peer)
        await peer.send(GOOD)
        await hold(peer)

    limits: dict[str, Any] = {"connect_timeout_s": 0.5, "subscribe_timeout_s": 0.5}
    async with false_broker(script) as port, station(port, wait=False, **limits) as here:
        assert payloads([await here.next_batch()]) == [b"good"]


async def test_a_refused_filter_is_told():
    async def script(peer: Peer, _number: int) -> None:
        await greet(peer, granted=0x80)
        await hold(peer)

    async with false_broker(script) as port, station(port) as here:
        await until(lambda: here.session.state().refused_filters == ("site/#",))


async def test_subscriptions_ask_for_qos_1_at_most():
    asked: list[bytes] = []

    async def script(peer: Peer, _number: int) -> None:
        await peer.expect(0x10)
        await peer.send(packet(CONNACK, b"\0\0"))
        asked.append(await peer.expect(0x82))
        await hold(peer)

    filters = [("a", 2), ("b", 0), ("a", 2)]
    async with false_broker(script) as port, station(port, filters=filters):
        await until(lambda: bool(asked))
        assert asked[0][2:] == b"\x00\x01a\x01\x00\x01b\x00"


async def test_a_slow_broker_makes_us_drop_and_never_makes_us_wait():
    async def script(peer: Peer, _number: int) -> None:
        await greet(peer)
        await asyncio.sleep(60)  # reads nothing

    async with false_broker(script) as port, station(port, max_unsent_packets=100) as here:
        for _ in range(2000):
            here.session.publish("out/a", bytes(8192))
            await asyncio.sleep(0)
        state = here.session.state()
        assert state.dropped > 0
        assert state.published + state.dropped == 2001
        assert here.session._connection.client.unsent <= 101


async def test_closing_says_goodbye_and_ends_the_task():
    said: list[int] = []

    async def script(peer: Peer, _number: int) -> None:
        await greet(peer)
        while True:
            kind, body = await peer.receive()
            said.append(kind & 0xF0)
            if kind & 0xF6 == PUBLISH | 2:
                await acknowledge(peer, body)

    async with false_broker(script) as port:
        async with station(port) as here:
            task = here.task
            await until(lambda: PUBLISH in said)
        assert said[-2:] == [PUBLISH, DISCONNECT]
        assert task.done()
        assert task.exception() is None


async def test_closing_does_not_wait_for_a_broker_that_is_not_there():
    async with false_broker(hold_only) as port:
        pass
    async with asyncio.timeout(1), station(port, wait=False, backoff_cap_s=20.0) as here:
        await until(lambda: bool(here.session.state().why))
    assert here.task.done()


async def hold_only(peer: Peer, _number: int) -> None:
    await hold(peer)
