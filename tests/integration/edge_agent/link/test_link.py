"""The link against a real nats-server."""

import asyncio
import os
from contextlib import asynccontextmanager

import nats
import pytest

from bench.servers import make_nats_server, nats_server
from contract.encoding import MAX_MESSAGE_BYTES, ZLIB
from contract.status import Health, Priority, Status
from contract.subjects import (
    ENCODING,
    MSG_ID,
    RETRY_AFTER_MS,
    STATUS,
    inbox_prefix,
    nudge_subject,
    state_subject,
)
from edge_agent.clock import SystemClock
from edge_agent.errors import Forbidden, LinkDown, LinkError, LinkTimeout, NoResponders, Refused
from edge_agent.link.connection import Link
from edge_agent.link.inference import HubInference
from edge_agent.settings import HubSettings
from tests.ack_subjects import both_ack_subjects

CLOCK = SystemClock()


@asynccontextmanager
async def linked(url, *, wait=True, **settings):
    given = {"reconnect_jitter_s": 0, "probe_interval_s": 0.5} | settings
    link = Link(HubSettings(url=url, **given), device="d", clock=CLOCK)
    task = asyncio.create_task(link.run(), name="link under test")
    try:
        if wait:
            await until(lambda: link.state().connection > 0)
        yield link
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert link.state().connection == 0


async def until(true, *, timeout_s=10.0):
    async with asyncio.timeout(timeout_s):
        while not true():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def hub_client(url):
    async def quiet(error: Exception) -> None:
        del error

    client = await nats.connect(url, error_cb=quiet, allow_reconnect=False)
    try:
        yield client
    finally:
        await client.close()


async def listen(client, subject, callback):
    """Subscribes, and returns when the server knows it: the client's first ping may overtake."""
    await client.subscribe(subject, cb=callback)
    for _ in range(2):
        await client.flush()


@asynccontextmanager
async def answering(url, subject, *, headers, body=b""):
    seen = []
    async with hub_client(url) as client:

        async def answer(message):
            seen.append(message)
            await client.publish(message.reply, body, headers=headers)

        await listen(client, subject, answer)
        yield seen


async def ask_state(link, timeout_s=1.0):
    return await link.request(state_subject("d"), b"", headers={}, timeout_s=timeout_s)


async def test_a_request_is_answered_on_the_devices_own_inbox(hub_nats):
    async with linked(hub_nats.url) as link:
        headers = {STATUS: "OK", "Edge-Queue-Ms": "1.5"}
        async with answering(hub_nats.url, "edge.v1.d.>", headers=headers, body=b"yes") as seen:
            reply = await ask_state(link)
            assert (reply.status, reply.body, reply.queue_ms) == (Status.OK, b"yes", 1.5)
            assert seen[0].reply.startswith(inbox_prefix("d") + ".")
            assert link.state().health is Health.DEGRADED
            await ask_state(link)
            assert link.state().health is Health.ONLINE
            assert 0 < link.state().rtt_ms < 1000


async def test_nobody_listening_is_known_at_once(hub_nats):
    async with linked(hub_nats.url) as link:
        loop = asyncio.get_running_loop()
        took_s = []
        for _ in range(20):
            began_s = loop.time()
            with pytest.raises(NoResponders):
                await ask_state(link, timeout_s=5)
            took_s.append(loop.time() - began_s)
        assert min(took_s) < 0.005, "a round trip to the server, and no wait"
        assert sorted(took_s)[10] < 0.2


async def test_a_silent_hub_is_a_timeout_and_a_cancelled_request_leaves_nothing(hub_nats):
    async with linked(hub_nats.url) as link, hub_client(hub_nats.url) as client:

        async def silent(message):
            del message

        await listen(client, "edge.v1.d.>", silent)
        with pytest.raises(LinkTimeout):
            await ask_state(link, timeout_s=0.2)
        task = asyncio.create_task(ask_state(link, timeout_s=60))
        await asyncio.sleep(0.05)
        assert len(link._waiting) == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert link._waiting == {}


async def test_without_a_server_everything_fails_at_once_until_there_is_one(tmp_path):
    server = await make_nats_server(tmp_path)
    async with linked(server.url, wait=False) as link:
        await asyncio.sleep(0.3)
        with pytest.raises(LinkDown):
            await ask_state(link)
        link.send("edge.v1.d.can.x", b"")
        assert link.state().health is Health.OFFLINE
        await server.start()
        try:
            await until(lambda: link.state().connection > 0)
        finally:
            await server.stop()
        await until(lambda: link.state().connection == 0)


async def test_a_killed_server_is_noticed_at_once_and_its_return_too(hub_nats):
    async with linked(hub_nats.url) as link:
        async with hub_client(hub_nats.url) as client:

            async def silent(message):
                del message

            await listen(client, "edge.v1.d.>", silent)
            asking = asyncio.create_task(ask_state(link, timeout_s=30))
            await asyncio.sleep(0.1)
            await hub_nats.kill()
            with pytest.raises(LinkTimeout, match="lost"):
                await asyncio.wait_for(asking, 2)
        assert link.state().health is Health.OFFLINE
        await hub_nats.start()
        await until(lambda: link.state().connection == 2)
        async with answering(hub_nats.url, "edge.v1.d.>", headers={STATUS: "OK"}):
            await ask_state(link)


@pytest.mark.timeout(60)
async def test_a_frozen_server_is_noticed_thrown_away_and_found_again(hub_nats, monkeypatch):
    monkeypatch.setattr("edge_agent.link.connection.PROBE_TIMEOUT_S", 0.5)
    async with (
        linked(hub_nats.url) as link,
        answering(hub_nats.url, "edge.v1.d.>", headers={STATUS: "OK"}),
    ):
        await ask_state(link)
        await ask_state(link)
        assert link.state().health is Health.ONLINE
        hub_nats.freeze()
        await until(lambda: link.state().health is Health.DEGRADED, timeout_s=3)
        await until(lambda: link.state().health is Health.OFFLINE, timeout_s=3)
        await until(lambda: link.state().connection == 0)
        hub_nats.thaw()
        await until(lambda: link.state().connection == 2)
        await ask_state(link)
        assert link.state().health is Health.DEGRADED


@both_ack_subjects
async def test_a_publish_is_stored_once_however_often_it_is_sent(hub_nats):
    async with linked(hub_nats.url) as link, hub_client(hub_nats.url) as client:
        stream = client.jetstream()
        await stream.add_stream(name="EDGE_TEL", subjects=["edge.v1.*.tel"])
        for _ in range(3):
            await link.publish("edge.v1.d.tel", b"x", headers={MSG_ID: "d:e:tel:1-9"}, timeout_s=5)
        assert (await stream.stream_info("EDGE_TEL")).state.messages == 1


@both_ack_subjects
async def test_a_stream_that_is_missing_or_full_says_so(hub_nats):
    async with linked(hub_nats.url) as link, hub_client(hub_nats.url) as client:
        with pytest.raises(NoResponders):
            await link.publish("edge.v1.d.tel", b"x", headers={}, timeout_s=5)
        await client.jetstream().add_stream(
            name="EDGE_TEL",
            subjects=["edge.v1.*.tel"],
            max_bytes=1000,
            discard="new",
            max_msg_size=600,
        )
        with pytest.raises(Refused):
            await link.publish("edge.v1.d.tel", b"x" * 700, headers={}, timeout_s=5)
        await link.publish("edge.v1.d.tel", b"x" * 500, headers={}, timeout_s=5)
        with pytest.raises(LinkError) as full:
            await link.publish("edge.v1.d.tel", b"x" * 500, headers={}, timeout_s=5)
        assert type(full.value) is LinkError


async def test_a_message_over_the_limit_never_reaches_the_server(hub_nats):
    async with linked(hub_nats.url) as link:
        body = os.urandom(MAX_MESSAGE_BYTES)
        with pytest.raises(Refused):
            await link.publish("edge.v1.d.tel", body, headers={MSG_ID: "x"}, timeout_s=5)
        assert link.state().connection == 1


async def test_a_forbidden_subject_is_told_at_once_and_is_not_the_messages_fault(tmp_path):
    conf = """
authorization { users = [
  {user: dev, password: pw, permissions: {publish: "edge.v1.d.>", subscribe: ["_INBOX_d.>", "edge.v1.d.nudge"]}}
] }"""
    async with nats_server(tmp_path, jetstream=False, extra_conf=conf) as server:
        async with linked(server.url, user="dev", password="pw") as link:
            with pytest.raises(Forbidden):
                await link.publish("edge.v1.other.tel", b"x", headers={}, timeout_s=5)
        async with linked(server.url, wait=False, user="dev", password="wrong") as link:
            await asyncio.sleep(0.5)
            assert link.state().connection == 0


async def test_a_nudge_calls_back(hub_nats):
    async with linked(hub_nats.url) as link, hub_client(hub_nats.url) as client:
        nudged = asyncio.Event()
        link.on_nudge = nudged.set
        await client.publish(nudge_subject("d"), b"")
        await asyncio.wait_for(nudged.wait(), 5)


async def test_a_reply_that_cannot_be_read_is_an_internal_error(hub_nats):
    async with linked(hub_nats.url) as link:
        for headers in ({}, {STATUS: "WAT"}, {STATUS: "OK", ENCODING: ZLIB}):
            async with answering(hub_nats.url, "edge.v1.d.>", headers=headers, body=b"junk"):
                assert (await ask_state(link)).status is Status.INTERNAL


async def test_inference_is_asked_and_cancelled(hub_nats):
    async with linked(hub_nats.url) as link:
        inference = HubInference(link, device="d")
        headers = {STATUS: "BUSY", RETRY_AFTER_MS: "5"}
        async with answering(hub_nats.url, "edge.v1.d.>", headers=headers) as seen:
            reply = await inference.ask(
                request_id="r1",
                model="m",
                priority=Priority.STD,
                body=b"x",
                budget_ms=500,
                timeout_s=0.5,
            )
            assert reply.status is Status.BUSY
            assert [message.subject for message in seen] == ["edge.v1.d.inf.std.m"] * 2
            inference.cancel("r1")
            await until(lambda: len(seen) == 3)
            assert seen[2].subject == "edge.v1.d.can.r1"


async def test_a_device_without_a_hub_is_offline_and_its_link_ends():
    link = Link(HubSettings(), device="d", clock=CLOCK)
    await asyncio.wait_for(link.run(), 1)
    assert link.state().why == "no hub is configured"
    with pytest.raises(LinkDown):
        await ask_state(link)
