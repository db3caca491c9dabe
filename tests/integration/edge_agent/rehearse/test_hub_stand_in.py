"""The drills' stand-in hub, on the real NATS server and on the stand-in one."""

import asyncio

import nats
import numpy as np
import pytest

from bench.ports import free_port
from contract.encoding import decode, encode
from contract.messages import (
    Clock,
    Gap,
    InferAnswer,
    LaneReport,
    RawRow,
    ReadingGroup,
    Row,
    RowMessage,
    StateAnswer,
    StateReport,
)
from contract.status import Lane, RowClass
from contract.subjects import inbox_prefix, lane_subject, state_subject
from edge_agent.rehearse.hub_side import StandInHub
from edge_agent.rehearse.servers import Choice, Programs, find_programs, make_server

CLOCK = Clock("boot", 1.0, 1.8e9, trusted=True)


def raw(seq, values):
    count = len(values)
    group = ReadingGroup(
        "s", 0, count, ("a", "b"), ("", ""),
        times=np.arange(count, dtype="<f8").tobytes(),
        arrivals=np.arange(count, dtype="<f8").tobytes(),
        values=np.array([[value, 0.0] for value in values], dtype="<f8").tobytes(),
        flags=bytes(count),
    )  # fmt: skip
    return Row(seq, RowClass.RAW, encode(RawRow(CLOCK, (group,))))


def gap(seq, first, last, readings):
    return Row(seq, RowClass.GAP, encode(Gap(Lane.TEL, first, last, 1, readings, "lost")))


@pytest.fixture(params=["nats-server", "stand-in"])
async def field(request, tmp_path):
    programs = Programs()
    if request.param == "nats-server":
        programs = await asyncio.to_thread(find_programs, Choice.AUTO)
    port = free_port()
    server = await asyncio.to_thread(
        make_server, programs, folder=tmp_path, port=port, monitor_port=free_port()
    )
    await server.start()
    hub = await asyncio.to_thread(lambda: StandInHub(tmp_path, port=port))
    await hub.child.start()
    client = await nats.connect(
        f"nats://127.0.0.1:{port}", inbox_prefix=inbox_prefix("dev").encode()
    )
    yield hub, server, client
    await client.close()
    await hub.child.stop()
    await server.stop()


async def send(client, lane, *rows, id):
    message = RowMessage("epoch", lane, tuple(rows))
    await client.jetstream().publish(
        lane_subject("dev", lane), encode(message), headers={"Nats-Msg-Id": id}
    )


async def watermark(client, lane, *, next_seq, first_kept=1):
    report = StateReport(
        "test", CLOCK, {lane.value: LaneReport("epoch", next_seq, next_seq - 1, first_kept)}
    )
    reply = await client.request(state_subject("dev"), encode(report), timeout=5)
    assert reply.headers["Edge-Status"] == "OK"
    return decode(reply.data, StateAnswer).watermarks[lane.value]


async def applied(client, lane, seq, *, next_seq):
    async with asyncio.timeout(20):
        while (mark := await watermark(client, lane, next_seq=next_seq)).applied < seq:
            await asyncio.sleep(0.05)
    return mark


async def test_rows_are_kept_once_whatever_comes_twice_and_survive_a_kill(field):
    hub, _, client = field
    await send(client, Lane.TEL, raw(1, [1.0, 2.0]), raw(2, [3.0]), id="a")
    await send(client, Lane.TEL, raw(2, [3.0]), raw(3, [4.0]), id="b")
    await applied(client, Lane.TEL, 3, next_seq=4)
    held = await hub.holdings()
    assert dict(held.readings) == {("s", float(n)): 1 for n in (1, 2, 3, 4)}
    assert await hub.count() == 4
    await hub.child.kill()
    await hub.child.start()
    await send(client, Lane.TEL, raw(1, [1.0, 2.0]), raw(4, [1.0]), id="c")
    await applied(client, Lane.TEL, 4, next_seq=5)
    held = await hub.holdings()
    assert held.readings["s", 1.0] == 2  # the same reading under another number is a duplicate
    assert await hub.count() == 5


async def test_missing_rows_are_asked_for_and_a_gap_settles_them(field):
    hub, _, client = field
    await send(client, Lane.TEL, raw(1, [1.0]), raw(4, [2.0]), id="a")
    mark = await applied(client, Lane.TEL, 1, next_seq=5)
    assert mark.missing == ((2, 3),)
    await send(client, Lane.EVT, gap(1, 2, 3, 7), id="g")
    mark = await applied(client, Lane.TEL, 4, next_seq=5)
    assert mark.missing == ()
    held = await hub.holdings()
    assert (held.gap_records, held.gap_readings) == (1, 7)


async def test_rows_that_nobody_keeps_are_not_waited_for(field):
    _, _, client = field
    await send(client, Lane.TEL, raw(101, [1.0]), id="a")
    async with asyncio.timeout(20):
        while (await watermark(client, Lane.TEL, next_seq=102, first_kept=101)).applied < 101:
            await asyncio.sleep(0.05)


async def test_rubbish_is_taken_and_stops_nothing(field):
    _, _, client = field
    await client.jetstream().publish(lane_subject("dev", Lane.TEL), b"rubbish")
    await send(client, Lane.TEL, Row(1, RowClass.RAW, b"rubbish"), raw(2, [1.0]), id="a")
    await applied(client, Lane.TEL, 2, next_seq=3)


async def test_an_inference_request_is_answered_with_no_model(field):
    _, _, client = field
    reply = await client.request("edge.v1.dev.inf.rt.some-model", b"", timeout=5)
    assert reply.headers["Edge-Status"] == "NO_MODEL"
    assert "stand-in" in decode(reply.data, InferAnswer).error


async def test_a_killed_server_is_found_again(field):
    hub, server, client = field
    await send(client, Lane.TEL, raw(1, [1.0]), id="a")
    await applied(client, Lane.TEL, 1, next_seq=2)
    await server.kill()
    await server.start()
    async with asyncio.timeout(20):
        while not client.is_connected:
            await asyncio.sleep(0.05)
        while True:
            try:
                await send(client, Lane.TEL, raw(2, [2.0]), id="b")
                break
            except nats.errors.Error:
                await asyncio.sleep(0.1)
    await applied(client, Lane.TEL, 2, next_seq=3)
    assert await hub.count() == 2
