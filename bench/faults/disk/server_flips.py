"""F21: a bit flips in the server's stream file, and the server dies. Devices send again exactly what it lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import nats
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError

from bench.faults.disk.files import flip_bits
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from contract.status import Lane
from contract.subjects import MSG_ID, ROOT, STREAM_OF

FOUND_S: Final = 60.0
READINGS: Final = 6000
_STREAM: Final = STREAM_OF[Lane.TEL]


async def flipped_in_the_server(context: DrillContext) -> DrillResult:
    """The hub is away while the stream fills; then SIGKILL, one flip in its last block, and all come back."""
    rounds = context.pick(ci=2, soak=10)
    result = DrillResult(repeats=rounds)
    lost_rows, again, slowest_s = 0, 0, 0.0
    async with field(context) as site:
        for number in context.each(rounds):
            await site.hub.stop()
            await site.sensors(rate=4000.0)
            await site.enough((number + 1) * READINGS)
            await _all_sent(site)
            before = await _rows_in_stream(site)
            await site.server.kill()
            await asyncio.to_thread(_flip, site.server.home / "store", context)
            await site.server.start()
            lost = before - await _rows_in_stream(site)
            lost_rows += len(lost)
            async with _sent_now(site) as sent:
                begin_s = time.monotonic()
                await site.hub.start()
                took_s = await site.drained(timeout_s=FOUND_S + 30)
                slowest_s = max(slowest_s, time.monotonic() - begin_s)
                result.expect(took_s is not None, f"not refilled after flip {number + 1}")
            again += len(sent)
            result.expect(
                set(sent) == lost,
                f"flip {number + 1}: {len(lost - set(sent))} lost rows were not sent again, "
                f"{len(set(sent) - lost)} others were",
            )
        result.balance = await site.settle(timeout_s=30)
        result.lag = await site.loop_lag()
    result.figures |= {
        "rows_lost_by_the_server": lost_rows,
        "rows_sent_again": again,
        "slowest_refill_s": round(slowest_s, 2),
    }
    result.expect(lost_rows, "no flip made the server lose anything: the drill shows nothing")
    result.expect(
        slowest_s <= FOUND_S, f"refilled after {slowest_s:.0f} s, allowed are {FOUND_S:.0f}"
    )
    return result


def _flip(store: Path, context: DrillContext) -> None:
    blocks = sorted(store.rglob(f"{_STREAM}/msgs/*.blk"), key=lambda path: path.stat().st_size)
    flip_bits(blocks[-1], count=1, rng=context.rng)


async def _all_sent(site: Site) -> None:
    """Returns once the server has acknowledged every row of every message, seen twice."""
    deadline_s = time.monotonic() + 30
    offered, calm = await site.acknowledged(), 0
    while calm < 2:
        status = await site.status()
        lanes = status["outbox"]["lanes"]
        done = all(lane["sent"] == lane["next_seq"] - 1 for lane in lanes.values())
        calm = calm + 1 if done and status["messages"] >= offered else 0
        assert time.monotonic() < deadline_s, f"not all rows went to the server: {lanes}"
        await asyncio.sleep(0.2)


@asynccontextmanager
async def _sent_now(site: Site) -> AsyncIterator[list[int]]:
    """The numbers of the rows that devices publish from now on."""
    client = await nats.connect(site.server.url, allow_reconnect=False)
    rows: list[int] = []

    async def note(message: Msg) -> None:
        rows.extend(_rows_of(message.headers))

    try:
        await client.subscribe(f"{ROOT}.*.tel", cb=note)
        await client.flush()
        yield rows
    finally:
        await client.close()


async def _rows_in_stream(site: Site) -> set[int]:
    """The numbers of the rows in all messages that the server still gives out."""
    client = await nats.connect(site.server.url, allow_reconnect=False)
    try:
        stream = client.jetstream()
        state = (await stream.stream_info(_STREAM)).state
        rows: set[int] = set()
        for seq in range(max(state.first_seq, 1), state.last_seq + 1):
            try:
                message = await stream.get_msg(_STREAM, seq)
            except NotFoundError:
                continue
            rows.update(_rows_of(message.headers))
        return rows
    finally:
        await client.close()


def _rows_of(headers: Mapping[str, str] | None) -> range:
    """The numbers in a message's id, `device:epoch:lane:first-last`."""
    first, _, last = (headers or {})[MSG_ID].split(":")[3].partition("-")
    return range(int(first), int(last) + 1)


DRILL = Drill(
    id="F21",
    name="a bit flips in the server's stream",
    run=flipped_in_the_server,
    needs=("mosquitto",),
)
