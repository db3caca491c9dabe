"""What surrounds a broker session in these tests: a sensor that speaks raw MQTT, and a false broker."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from bench.ports import HOST
from edge_agent.broker.options import BrokerOptions
from edge_agent.broker.session import BrokerSession
from edge_agent.clock import SystemClock
from edge_agent.sources.mqtt import MqttSource
from edge_agent.types import MessageBatch

CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, DISCONNECT = 0x20, 0x30, 0x40, 0x82, 0x90, 0xE0
STATUS_TOPIC = "skerry/test/status"
CLOCK = SystemClock()


def packet(kind: int, body: bytes = b"", *, claimed: int | None = None) -> bytes:
    """One MQTT packet; `claimed` lies about its length."""
    length, encoded = len(body) if claimed is None else claimed, bytearray()
    while True:
        length, digit = divmod(length, 128)
        encoded.append(digit | (0x80 if length else 0))
        if not length:
            return bytes([kind]) + bytes(encoded) + body


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("!H", len(raw)) + raw


def publish(
    topic: str | bytes, payload: bytes, *, qos: int = 0, mid: int = 0, flags: int = 0
) -> bytes:
    """A PUBLISH packet; `flags` adds retain (1) and dup (8)."""
    body = text(topic) + (struct.pack("!H", mid) if qos else b"") + payload
    return packet(PUBLISH | qos << 1 | flags, body)


class Peer:
    """One end of an MQTT connection, packet by packet."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self) -> tuple[int, bytes]:
        """The next packet: its first byte and its body."""
        kind = (await self.reader.readexactly(1))[0]
        length = shift = 0
        while True:
            digit = (await self.reader.readexactly(1))[0]
            length |= (digit & 0x7F) << shift
            shift += 7
            if digit < 0x80:
                return kind, await self.reader.readexactly(length)

    async def expect(self, kind: int, *, timeout_s: float = 5.0) -> bytes:
        """The body of the next packet of a kind; others are passed over."""
        async with asyncio.timeout(timeout_s):
            while True:
                got, body = await self.receive()
                if got & 0xF0 == kind & 0xF0:
                    return body

    async def hang_up(self) -> None:
        self.writer.transport.abort()
        await asyncio.sleep(0)


class Sensor(Peer):
    """A client that publishes whatever bytes it likes."""

    async def send_all(self, topic: str, payloads: Sequence[bytes], *, qos: int = 0) -> None:
        """Publishes and, at QoS 1, returns when all are acknowledged."""
        for start in range(0, len(payloads), 50):
            some = payloads[start : start + 50]
            for mid, payload in enumerate(some, start=1):
                self.writer.write(publish(topic, payload, qos=qos, mid=mid))
            await self.writer.drain()
            if qos:
                for _ in some:
                    await self.expect(PUBACK, timeout_s=10)

    async def subscribe(self, topic: str) -> None:
        await self.send(packet(SUBSCRIBE, b"\0\1" + text(topic) + b"\1"))
        await self.expect(SUBACK)

    async def next_message(self, *, timeout_s: float = 5.0) -> tuple[str, bytes, bool]:
        """Topic, payload and whether it was retained."""
        async with asyncio.timeout(timeout_s):
            while True:
                kind, body = await self.receive()
                if kind & 0xF0 == PUBLISH:
                    (size,) = struct.unpack_from("!H", body)
                    topic, rest = body[2 : 2 + size], body[2 + size :]
                    if kind >> 1 & 3:
                        await self.send(packet(PUBACK, rest[:2]))
                        rest = rest[2:]
                    return topic.decode(), rest, bool(kind & 1)


@asynccontextmanager
async def sensor(port: int, client_id: str = "sensor") -> AsyncIterator[Sensor]:
    """A connected sensor."""
    peer = Sensor(*await asyncio.open_connection(HOST, port))
    try:
        await peer.send(packet(0x10, text("MQTT") + b"\x04\x02\x00\x3c" + text(client_id)))
        assert (await peer.expect(CONNACK))[1] == 0
        yield peer
    finally:
        peer.writer.close()


Script = Callable[[Peer, int], Awaitable[None]]


@asynccontextmanager
async def false_broker(script: Script) -> AsyncIterator[int]:
    """The port of a server that runs `script(peer, connection number)` for each client."""
    count = 0
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await script(Peer(reader, writer), count)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def greet(peer: Peer, *, granted: int = 1) -> None:
    """Answers CONNECT and one SUBSCRIBE as a broker does."""
    await peer.expect(0x10)
    await peer.send(packet(CONNACK, b"\0\0"))
    body = await peer.expect(SUBSCRIBE)
    await peer.send(packet(SUBACK, body[:2] + bytes([granted])))


class Station:
    """A broker session with its source and its running task."""

    def __init__(self, session: BrokerSession, task: asyncio.Task[None]) -> None:
        self.session = session
        self.task = task
        self.source = MqttSource([session])

    async def connected(self, *, connections: int = 1, timeout_s: float = 10.0) -> None:
        async with asyncio.timeout(timeout_s):
            while True:
                state = self.session.state()
                if state.connected and state.connections >= connections:
                    return
                assert not self.task.done(), self.task
                await asyncio.sleep(0.01)

    async def next_batch(self, *, timeout_s: float = 10.0) -> MessageBatch:
        async with asyncio.timeout(timeout_s):
            batch = await self.source.next_batch()
        assert batch is not None
        return batch

    async def take(self, count: int, *, acknowledge: bool = True) -> list[MessageBatch]:
        """Batches with at least `count` messages in all."""
        batches: list[MessageBatch] = []
        while sum(len(batch) for batch in batches) < count:
            batches.append(await self.next_batch())
            if acknowledge:
                self.source.acknowledge(batches[-1])
        return batches

    async def vanish(self) -> None:
        """As a kill would: no goodbye."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def station(
    port: int,
    *,
    filters: Sequence[tuple[str, int]] = (("site/#", 1),),
    wait: bool = True,
    closing_s: float = 2.0,
    **changes: Any,
) -> AsyncIterator[Station]:
    """A session against the broker at `port`, closed at the end."""
    options = replace(
        BrokerOptions(host=HOST, port=port, client_id="skerry-test", backoff_cap_s=0.3),
        **changes,
    )
    session = BrokerSession(options, filters=filters, status_topic=STATUS_TOPIC, clock=CLOCK)
    task = asyncio.create_task(session.run(), name="session")
    here = Station(session, task)
    try:
        if wait:
            await here.connected()
            await asyncio.sleep(0.05)
        yield here
    finally:
        await session.close(timeout_s=closing_s)
        await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 2)


def topics(batches: Sequence[MessageBatch]) -> list[str | None]:
    return [topic for batch in batches for topic in batch.topics]


def payloads(batches: Sequence[MessageBatch]) -> list[bytes]:
    return [payload for batch in batches for payload in batch.payloads]


async def until(condition: Callable[[], bool], *, timeout_s: float = 5.0) -> None:
    """Returns once the condition holds."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "the condition did not come true in time"
        await asyncio.sleep(0.01)
