"""A fetch is told when its connection is gone: what it waits for will never come over it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.servers import NatsServer
from cloud_hub.bus.connection import Connection
from cloud_hub.bus.puller import LanePuller
from cloud_hub.bus.streams import StreamKeeper
from cloud_hub.metrics import HubMetrics
from cloud_hub.settings import Settings
from contract.status import Lane
from tests.integration.cloud_hub.rig import hub_settings

WAIT_S = 20.0


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Connection]:
    keeper = StreamKeeper(settings.nats, settings.ingest, tuple(Lane))
    connection = Connection(settings.nats, metrics=HubMetrics(), preparations=(keeper,))
    running = asyncio.create_task(connection.run(), name="connection")
    try:
        yield connection
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_fetch_ends_when_the_server_dies_and_the_next_one_works(
    hub_nats: NatsServer, tmp_path: Path
):
    async with connected(hub_settings(hub_nats, tmp_path)) as connection:
        puller = LanePuller(connection, Lane.TEL)
        fetching = asyncio.create_task(puller.fetch(max_messages=8, wait_s=WAIT_S))
        await connection.client(wait_s=WAIT_S)
        await asyncio.sleep(0.3)
        assert not fetching.done()
        await hub_nats.kill()
        begin_s = time.monotonic()
        assert await fetching == []
        assert time.monotonic() - begin_s < 3.0
        await hub_nats.start()
        client = await connection.client(wait_s=WAIT_S)
        await client.jetstream().publish("edge.v1.d1.tel", b"row")
        assert len(await puller.fetch(max_messages=8, wait_s=WAIT_S)) == 1
