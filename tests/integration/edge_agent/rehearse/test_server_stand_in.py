"""What a device and a hub need of a NATS server, on the real one and on the drills' stand-in: one body, two servers."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass

import nats
import pytest
from nats.js.api import AckPolicy, ConsumerConfig, DiscardPolicy, RetentionPolicy, StreamConfig
from nats.js.errors import NotFoundError

from bench.ports import free_port
from contract.subjects import inbox_prefix, state_subject
from edge_agent.clock import SystemClock
from edge_agent.errors import LinkError, NoResponders
from edge_agent.link.connection import Link
from edge_agent.rehearse.children import Child
from edge_agent.rehearse.servers import Choice, Programs, find_programs, make_server
from edge_agent.settings import HubSettings

CLOCK = SystemClock()
STREAM, CONSUMER, SUBJECT = "EDGE_TEL", "hub", "edge.v1.dev.tel"


@dataclass(frozen=True)
class Server:
    child: Child
    url: str
    port: int


@pytest.fixture(params=["nats-server", "stand-in"])
async def server(request, tmp_path):
    programs = Programs()
    if request.param == "nats-server":
        programs = await asyncio.to_thread(find_programs, Choice.AUTO)
        assert programs.nats_server, "the environment brings a nats-server"
    port, monitor = free_port(), free_port()
    child = await asyncio.to_thread(
        make_server, programs, folder=tmp_path, port=port, monitor_port=monitor
    )
    await child.start()
    yield Server(child, f"nats://127.0.0.1:{port}", port)
    await child.stop()


@asynccontextmanager
async def client_of(server):
    async def quiet(error):
        del error

    client = await nats.connect(server.url, error_cb=quiet, allow_reconnect=False)
    try:
        yield client
    finally:
        await client.close()


async def make_stream(client, **more):
    jetstream = client.jetstream()
    await jetstream.add_stream(
        StreamConfig(
            name=STREAM,
            subjects=["edge.v1.*.tel"],
            retention=RetentionPolicy.WORK_QUEUE,
            discard=DiscardPolicy.NEW,
            duplicate_window=600,
            **more,
        )
    )
    await jetstream.add_consumer(
        STREAM,
        ConsumerConfig(durable_name=CONSUMER, ack_policy=AckPolicy.EXPLICIT, ack_wait=1),
    )
    return jetstream


async def test_a_message_reaches_all_who_listen_and_one_of_a_group(server):
    async with client_of(server) as one, client_of(server) as two:
        got = []

        def noted(name):
            async def note(message):
                got.append((name, message.subject, message.data, (message.headers or {}).get("X")))

            return note

        await one.subscribe("a.*", cb=noted("one"))
        await two.subscribe("a.>", cb=noted("two"))
        await one.subscribe("a.b", queue="q", cb=noted("q"))
        await two.subscribe("a.b", queue="q", cb=noted("q"))
        for client in (one, two, one, two):
            await client.flush()
        await one.publish("a.b", b"hello", headers={"X": "y"})
        await one.publish("a.b.c", b"deeper")
        async with asyncio.timeout(5):
            while len(got) < 4:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert sorted(got) == [
            ("one", "a.b", b"hello", "y"),
            ("q", "a.b", b"hello", "y"),
            ("two", "a.b", b"hello", "y"),
            ("two", "a.b.c", b"deeper", None),
        ]


async def test_a_request_that_nobody_hears_is_answered_at_once(server):
    async with client_of(server) as client:
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("nobody.home", b"", timeout=5)


async def test_an_unsubscribed_subject_is_silent(server):
    async with client_of(server) as client:
        subscription = await client.subscribe("once")
        await subscription.unsubscribe(limit=1)
        await client.flush()
        for text in (b"1", b"2"):
            await client.publish("once", text)
        assert (await subscription.next_msg(timeout=5)).data == b"1"
        with pytest.raises((nats.errors.TimeoutError, nats.errors.Error)):
            await subscription.next_msg(timeout=0.3)


async def test_an_oversized_message_ends_the_connection(server):
    async with client_of(server) as client:
        with pytest.raises(nats.errors.MaxPayloadError):
            await client.publish("a", b"x" * (256 * 1024 + 1))
        assert client.max_payload == 256 * 1024


async def test_a_known_message_id_is_stored_once(server):
    async with client_of(server) as client:
        jetstream = await make_stream(client)
        first = await jetstream.publish(SUBJECT, b"x", headers={"Nats-Msg-Id": "a"})
        again = await jetstream.publish(SUBJECT, b"x", headers={"Nats-Msg-Id": "a"})
        other = await jetstream.publish(SUBJECT, b"y", headers={"Nats-Msg-Id": "b"})
        assert (first.stream, first.seq, bool(first.duplicate)) == (STREAM, 1, False)
        assert (again.seq, again.duplicate) == (1, True)
        assert other.seq == 2
        assert (await jetstream.stream_info(STREAM)).state.messages == 2


async def test_a_message_comes_until_it_is_acknowledged_and_then_leaves(server):
    async with client_of(server) as client:
        jetstream = await make_stream(client)
        for number in range(3):
            await jetstream.publish(SUBJECT, b"%d" % number, headers={"H": str(number)})
        puller = await jetstream.pull_subscribe_bind(CONSUMER, STREAM)
        first = await puller.fetch(3, timeout=5)
        assert [message.data for message in first] == [b"0", b"1", b"2"]
        assert [message.headers["H"] for message in first] == ["0", "1", "2"]
        assert first[0].subject == SUBJECT
        await first[0].ack()
        await first[2].ack()
        again = await puller.fetch(1, timeout=5)  # after the time for an acknowledgement
        assert (again[0].data, again[0].metadata.num_delivered) == (b"1", 2)
        await again[0].ack_sync()
        info = await jetstream.consumer_info(STREAM, CONSUMER)
        assert (info.num_pending, info.num_ack_pending) == (0, 0)
        assert (await jetstream.stream_info(STREAM)).state.messages == 0


async def test_what_is_refused_comes_again_at_once_and_a_pull_ends_in_its_time(server):
    async with client_of(server) as client:
        jetstream = await make_stream(client)
        puller = await jetstream.pull_subscribe_bind(CONSUMER, STREAM)
        with pytest.raises(nats.errors.TimeoutError):
            await puller.fetch(1, timeout=0.3)
        await jetstream.publish(SUBJECT, b"x")
        [message] = await puller.fetch(1, timeout=5)
        await message.nak()
        [message] = await puller.fetch(1, timeout=5)
        assert message.metadata.num_delivered == 2
        await message.ack()


async def test_a_full_stream_says_so_and_takes_again_when_there_is_room(server):
    async with client_of(server) as client:
        jetstream = await make_stream(client, max_bytes=100_000)

        async def fill():
            for _ in range(200):
                await jetstream.publish(SUBJECT, b"x" * 1000)

        with pytest.raises(nats.js.errors.APIError):
            await fill()
        puller = await jetstream.pull_subscribe_bind(CONSUMER, STREAM)
        for message in await puller.fetch(50, timeout=5):
            await message.ack_sync()
        await jetstream.publish(SUBJECT, b"x" * 1000)


async def test_what_was_acknowledged_survives_a_kill_and_so_do_its_ids(server):
    async with client_of(server) as client:
        jetstream = await make_stream(client)
        for number in range(20):
            await jetstream.publish(SUBJECT, b"%d" % number, headers={"Nats-Msg-Id": str(number)})
    await server.child.kill()
    await server.child.start()
    async with client_of(server) as client:
        jetstream = await make_stream(client)
        assert (await jetstream.stream_info(STREAM)).state.messages == 20
        assert (await jetstream.publish(SUBJECT, b"7", headers={"Nats-Msg-Id": "7"})).duplicate
        assert (await jetstream.publish(SUBJECT, b"new")).seq == 21
        puller = await jetstream.pull_subscribe_bind(CONSUMER, STREAM)
        got = await puller.fetch(21, timeout=5)
        assert [message.data for message in got] == [b"%d" % n for n in range(20)] + [b"new"]


async def test_an_unknown_stream_is_said_to_be_unknown(server):
    async with client_of(server) as client:
        with pytest.raises(NotFoundError):
            await client.jetstream().stream_info("NONE")


async def test_the_device_s_own_link_works_with_it(server):
    settings = HubSettings(url=server.url, reconnect_jitter_s=0, probe_interval_s=0.5)
    link = Link(settings, device="dev", clock=CLOCK)
    task = asyncio.create_task(link.run(), name="link")
    try:
        async with client_of(server) as hub, asyncio.timeout(20):
            while not link.state().connection:
                await asyncio.sleep(0.01)
            with pytest.raises(NoResponders):
                await link.request(state_subject("dev"), b"", headers={}, timeout_s=5)
            with pytest.raises(LinkError):
                await link.publish(SUBJECT, b"x", headers={}, timeout_s=5)
            await make_stream(hub)
            await link.publish(SUBJECT, b"x", headers={"Nats-Msg-Id": "m"}, timeout_s=5)

            async def answer(message):
                assert message.reply.startswith(inbox_prefix("dev"))
                await hub.publish(message.reply, b"yes", headers={"Edge-Status": "OK"})

            await hub.subscribe(state_subject("dev"), cb=answer)
            await hub.flush()
            reply = await link.request(state_subject("dev"), b"", headers={}, timeout_s=5)
            assert reply.body == b"yes"
            server.child.freeze()
            before = link.state().connection
            while link.state().connection == before:
                await asyncio.sleep(0.05)
            server.child.thaw()
            while not link.state().connection:
                await asyncio.sleep(0.01)
    finally:
        server.child.thaw()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_stranger_s_bytes_end_his_connection_and_nobody_else_s(server):
    async with client_of(server) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert json.loads((await reader.readline())[5:])["max_payload"] == 256 * 1024
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        async with asyncio.timeout(5):
            await reader.read()
        writer.close()
        await client.flush()
