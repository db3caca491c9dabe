"""F31: a row at the head of the queue that can never arrive. It is set aside, and the queue moves on."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from bench.faults.processes.outbox_worker import opened
from contract.status import Lane, RowClass
from edge_agent.types import Commit, NewRow

MOVES_S: Final = 5.0
READINGS: Final = 7
FORBIDDEN: Final = "forbidden"
USERS: Final = f"""
authorization {{
  users = [
    {{ user: device, password: device, permissions: {{ publish: {{ deny: ["edge.v1.*.bulk.{FORBIDDEN}"] }} }} }}
    {{ user: hub, password: hub }}
  ]
}}
"""
Poison = Callable[[Path, random.Random], Awaitable[tuple[Lane, int, int]]]
"""Puts a row into an outbox that nobody else holds; returns its lane, its number and its readings."""


async def too_large(folder: Path, rng: random.Random) -> tuple[Lane, int, int]:
    """A row above the limit of a message."""
    return await _add(folder, NewRow(RowClass.RAW, rng.randbytes(300 * 1024), READINGS), Lane.TEL)


async def forbidden_subject(folder: Path, rng: random.Random) -> tuple[Lane, int, int]:
    """A row for a subject on which the device may not publish."""
    row = NewRow(RowClass.ESCALATION, rng.randbytes(200), model=FORBIDDEN)
    return await _add(folder, row, Lane.BULK)


async def bad_checksum(folder: Path, rng: random.Random) -> tuple[Lane, int, int]:
    """A row of which one bit has turned on the disk."""
    body = rng.randbytes(200)
    lane, seq, readings = await _add(folder, NewRow(RowClass.RAW, body, READINGS), Lane.TEL)
    turned = bytearray(body)
    turned[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    await asyncio.to_thread(_replace_body, folder, seq, bytes(turned))
    return lane, seq, readings


async def poison_row(context: DrillContext) -> DrillResult:
    """Each kind of poison lies in front of live data, and is the only row that does not arrive."""
    kinds: tuple[Poison, ...] = (too_large, forbidden_subject, bad_checksum)
    result = DrillResult(repeats=len(kinds) * context.pick(ci=1, soak=5))
    device = {"hub": {"user": "device", "password": "device"}}
    hub = {"nats": {"user": "hub", "password": "hub"}}
    given_up = 0
    async with field(context, agent_keys=device, hub_keys=hub, server_conf=USERS) as site:
        await site.sensors(rate=500.0)
        for number in context.each(result.repeats):
            poison = kinds[number % len(kinds)]
            await asyncio.sleep(0.5)
            before = (await site.status())["outbox"]["dead_letters"]
            await site.keep_lag()
            await site.agent.terminate()
            lane, seq, readings = await poison(site.agent.data_dir / "outbox", context.rng)
            given_up += readings
            await site.agent.start()
            seconds = await _moves(site, lane, seq)
            letters = (await site.status())["outbox"]["dead_letters"] - before
            what = poison.__name__
            result.figures[f"{what}_s"] = round(seconds, 2)
            result.within(seconds, MOVES_S, f"{what}: passing it")
            result.expect(letters == 1, f"{what}: {letters} dead letters instead of one")
        await site.enough(0)
        balance = await site.settle(timeout_s=60)
        result.lag = await site.loop_lag()
    # The poison is no reading of a sensor: what was declared for it is missing from nobody's ledger.
    result.expect(
        balance.declared >= given_up,
        f"{balance.declared} readings declared, {given_up} were set aside",
    )
    result.figures["set_aside_readings"] = given_up
    result.balance = replace(balance, declared=balance.declared - given_up)
    return result


async def _add(folder: Path, row: NewRow, lane: Lane) -> tuple[Lane, int, int]:
    outbox = await opened(folder)
    try:
        await outbox.submit(Commit(rows=(row,)))
        return lane, outbox.state().lanes[lane].next_seq - 1, row.readings
    finally:
        await outbox.close()


def _replace_body(folder: Path, seq: int, body: bytes) -> None:
    with closing(sqlite3.connect(folder / "spool.db")) as connection:
        changed = connection.execute("UPDATE tel SET body = ? WHERE seq = ?", (body, seq)).rowcount
        connection.commit()
    assert changed == 1, f"row {seq} is not there"


async def _moves(site: Site, lane: Lane, seq: int, *, timeout_s: float = 30.0) -> float:
    """Seconds from now until the hub counts the poison as done with, and something behind it."""
    begin_s = time.monotonic()
    async with asyncio.timeout(timeout_s):
        while True:
            lanes = (await site.status())["outbox"]["lanes"]
            if lanes[lane]["applied"] >= seq and lanes[Lane.TEL]["applied"] > seq * (
                lane == Lane.TEL
            ):
                return time.monotonic() - begin_s
            await asyncio.sleep(0.05)


DRILL = Drill(
    id="F31",
    name="poison row at the head of the queue",
    run=poison_row,
    needs=("mosquitto", "nats-server"),
)
