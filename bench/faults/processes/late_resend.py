"""F32: everything is sent again after the server has forgotten the ids. The hub's keys hold."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import nats

from bench.faults.aggregates import differences
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from contract.status import Lane
from contract.subjects import STREAM_OF

WINDOW_S: Final = 1.0


async def late_resend(context: DrillContext) -> DrillResult:
    """The device loses its marks while the hub is away: JetStream stores all of it twice, the hub once."""
    result = DrillResult(repeats=1)
    async with field(context) as site:
        await site.hub.stop()
        await _shorten_window(site)
        await site.sensors(rate=5000.0)
        await site.enough(context.pick(ci=20_000, soak=100_000))
        await site.taken()
        rows = await _all_sent(site)
        first = await _stored_rows(site)
        await site.keep_lag()
        await site.agent.terminate()
        await asyncio.to_thread(_forget_marks, site.agent.data_dir / "outbox" / "state.db")
        await asyncio.sleep(2 * WINDOW_S)
        await site.agent.start()
        await _all_sent(site)
        twice = await _stored_rows(site)
        await site.hub.start()
        result.balance = await site.settle(timeout_s=60)
        result.faults += await differences(site.hub)
        result.lag = await site.loop_lag()
    result.figures |= {"rows": rows, "messages_first": first, "messages_in_stream": twice}
    result.expect(twice > first, "the server took nothing a second time: its window held")
    return result


async def _shorten_window(site: Site) -> None:
    client = await nats.connect(site.server.url)
    try:
        jetstream = client.jetstream()
        for name in STREAM_OF.values():
            found = (await jetstream.stream_info(name)).config
            await jetstream.update_stream(replace(found, duplicate_window=WINDOW_S))
    finally:
        await client.close()


async def _stored_rows(site: Site) -> int:
    """How many messages lie in the stream of readings."""
    client = await nats.connect(site.server.url)
    try:
        info = await client.jetstream().stream_info(STREAM_OF[Lane.TEL])
    finally:
        await client.close()
    return int(info.state.messages)


async def _all_sent(site: Site, *, timeout_s: float = 60.0) -> int:
    """The rows of readings, once the server has acknowledged all of them."""
    async with asyncio.timeout(timeout_s):
        while True:
            lane = (await site.status())["outbox"]["lanes"][Lane.TEL]
            if lane["sent"] == lane["next_seq"] - 1 > 0:
                return int(lane["sent"])
            await asyncio.sleep(0.1)


def _forget_marks(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE marks SET sent = 0")
        connection.commit()


DRILL = Drill(
    id="F32",
    name="sent again after the dedupe window",
    run=late_resend,
    needs=("mosquitto", "nats-server"),
)
