"""What the hub survives without a restart: a database that cannot be written, and a server that forgot its streams."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import event

from bench.servers import NatsServer
from cloud_hub.hub.life import Hub
from cloud_hub.ingest import intake
from cloud_hub.settings import Settings
from cloud_hub.store import engine
from contract.status import Lane
from contract.subjects import CONSUMER, STREAM_OF
from tests.ack_subjects import both_ack_subjects
from tests.integration.cloud_hub.rig import (
    Device,
    device,
    eventually,
    hub_settings,
    running_hub,
    until,
)
from tests.unit.cloud_hub.sample_rows import raw_row

MESSAGES = 60
MOST = 4
"""Messages in one fetch."""


@pytest.fixture
def settings(hub_nats: NatsServer, tmp_path: Path) -> Settings:
    return hub_settings(hub_nats, tmp_path, ingest={"max_messages": MOST})


@pytest.fixture
async def hub(settings: Settings, monkeypatch) -> AsyncIterator[Hub]:
    monkeypatch.setattr(intake, "RETRY_S", 0.1)
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 200)
    async with running_hub(settings) as running:
        yield running


@pytest.fixture
async def d1(hub: Hub, hub_nats: NatsServer) -> AsyncIterator[Device]:
    async with device(hub_nats) as connected:
        yield connected


async def _fill(d1: Device, first: int = 1) -> None:
    for seq in range(first, first + MESSAGES):
        await d1.publish([raw_row(seq)], Lane.TEL)


async def _all_stored(d1: Device, last: int) -> float:
    """Seconds until the watermark says so."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await eventually(
        lambda: d1.state({Lane.TEL: last}),
        lambda a: Lane.TEL in a.watermarks and a.watermarks[Lane.TEL].applied == last,
        limit_s=20,
    )
    return loop.time() - began_s


@both_ack_subjects
async def test_a_locked_database_stops_the_fetching_and_the_stream_keeps_the_rest(
    hub: Hub, d1: Device, settings: Settings
):
    await _fill(d1)
    await _all_stored(d1, MESSAGES)
    path = engine.sqlite_path(settings.store.resolved_url)
    assert path is not None

    def lock() -> sqlite3.Connection:
        other = sqlite3.connect(path, check_same_thread=False, timeout=5)
        other.execute("BEGIN IMMEDIATE")
        return other

    other = await asyncio.to_thread(lock)
    await _fill(d1, MESSAGES + 1)
    await until(lambda: not hub.ready()["store_writable"])
    assert "locked" in str(hub.ready()["why"])
    assert not all(hub.ready().values())
    await asyncio.sleep(1.0)
    jetstream = d1.client.jetstream()
    info = await jetstream.stream_info(STREAM_OF[Lane.TEL])
    consumer = await jetstream.consumer_info(STREAM_OF[Lane.TEL], CONSUMER)
    assert info.state.messages == MESSAGES, "nothing was acknowledged"
    assert consumer.num_ack_pending is not None
    assert consumer.num_ack_pending <= 4 * MOST
    assert hub._crew is not None
    assert len(hub._crew._pullers[Lane.TEL]._arrived) <= MOST
    assert (await d1.state({Lane.TEL: 1})).watermarks[Lane.TEL].applied == MESSAGES
    await asyncio.to_thread(other.rollback)
    await asyncio.to_thread(other.close)
    assert await _all_stored(d1, 2 * MESSAGES) < 10
    await until(lambda: all(hub.ready().values()))


@pytest.mark.parametrize(
    ("pragma", "why"), [("max_page_count = 1", "full"), ("query_only = 1", "readonly")]
)
async def test_a_full_or_read_only_disk_is_told_and_waited_for(
    hub: Hub, d1: Device, pragma: str, why: str
):
    await _fill(d1)
    await _all_stored(d1, MESSAGES)
    honest = engine._on_connect_reader

    def faulty(connection, record) -> None:
        honest(connection, record)
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    assert hub._database is not None
    pool = hub._database._engine.sync_engine
    event.listen(pool, "connect", faulty)
    await hub._database._engine.dispose()
    await _fill(d1, MESSAGES + 1)
    await until(lambda: not hub.ready()["store_writable"])
    assert why in str(hub.ready()["why"])
    info = await d1.client.jetstream().stream_info(STREAM_OF[Lane.TEL])
    assert info.state.messages > 0, "what is not stored is not acknowledged"
    applied = (await d1.state({Lane.TEL: 1})).watermarks[Lane.TEL].applied
    assert applied + info.state.messages == 2 * MESSAGES
    event.remove(pool, "connect", faulty)
    await hub._database._engine.dispose()
    assert await _all_stored(d1, 2 * MESSAGES) < 10
    await until(lambda: all(hub.ready().values()))


@pytest.mark.parametrize("gone", ["stream", "consumer"])
async def test_a_stream_or_consumer_that_the_server_forgot_is_made_anew(
    hub: Hub, d1: Device, gone: str
):
    await _fill(d1)
    await _all_stored(d1, MESSAGES)
    jetstream = d1.client.jetstream()
    if gone == "stream":
        await jetstream.delete_stream(STREAM_OF[Lane.TEL])
    else:
        await jetstream.delete_consumer(STREAM_OF[Lane.TEL], CONSUMER)
    connects = hub.metrics.connects._value.get()
    await until(lambda: hub.metrics.connects._value.get() > connects)
    await until(lambda: all(hub.ready().values()))
    await _fill(d1, MESSAGES + 1)
    await _all_stored(d1, 2 * MESSAGES)
    assert hub.metrics.connects._value.get() <= connects + 3


async def test_several_holes_are_told_exactly_and_heal(hub: Hub, d1: Device):
    await d1.publish([raw_row(1)], Lane.TEL)
    await d1.publish([raw_row(4), raw_row(5)], Lane.TEL)
    await d1.publish([raw_row(9)], Lane.TEL)
    answer = await eventually(
        lambda: d1.state({Lane.TEL: 9}),
        lambda a: (
            Lane.TEL in a.watermarks
            and a.watermarks[Lane.TEL].pending == 0
            and len(a.watermarks[Lane.TEL].missing) == 2
        ),
    )
    assert answer.watermarks[Lane.TEL].missing == ((2, 3), (6, 8))
    await d1.publish([raw_row(2), raw_row(3)], Lane.TEL)
    await d1.publish([raw_row(6), raw_row(7), raw_row(8)], Lane.TEL)
    await _all_stored(d1, 9)


async def test_a_client_whose_read_loop_died_is_replaced(hub: Hub, d1: Device, monkeypatch):
    """A zombie: it says that it is connected, and nothing comes."""
    from cloud_hub.bus import connection

    monkeypatch.setattr(connection, "PROBE_EVERY_S", 0.2)
    monkeypatch.setattr(connection, "PROBE_LIMIT_S", 0.3)
    assert hub._crew is not None
    hub._crew.connection.renew("so that the shorter interval holds")
    await until(lambda: not all(hub.ready().values()))
    await until(lambda: all(hub.ready().values()))
    zombie = hub._crew.connection.client_now()
    assert zombie._reading_task is not None
    zombie._reading_task.cancel()
    await until(lambda: not hub.ready()["consumers_ready"])
    assert zombie.is_connected or zombie.is_closed
    await until(lambda: all(hub.ready().values()))
    await _fill(d1)
    await _all_stored(d1, MESSAGES)
