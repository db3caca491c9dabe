"""What the tests of the outbox share: real files, commits of a known size, and a way to wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from contract.status import RowClass
from edge_agent.clock import SystemClock
from edge_agent.outbox.store import Outbox
from edge_agent.settings import OutboxSettings
from edge_agent.types import Checkpoint, Commit, NewRow, Round

CLOCK = SystemClock()

OpenOutbox = Callable[..., Awaitable[Outbox]]


@pytest.fixture
async def open_outbox(tmp_path: Path) -> AsyncIterator[OpenOutbox]:
    """Opens the outbox of this test, any number of times; closes what is left open."""
    opened: list[Outbox] = []

    async def open_(**settings: object) -> Outbox:
        outbox = await Outbox.open(
            tmp_path / "outbox", settings=OutboxSettings(**settings), clock=CLOCK
        )
        opened.append(outbox)
        await outbox.recover()
        return outbox

    yield open_
    for outbox in opened:
        await outbox.close()


def raw(readings: int = 4, size: int = 200, fill: bytes = b"r") -> NewRow:
    return NewRow(RowClass.RAW, fill * size, readings)


def whole_round(*rows: NewRow, stream: str = "s", body: bytes = b"state") -> Commit:
    """A commit that makes all rows so far unneeded for windows."""
    return Commit(rows=rows, checkpoints=(Checkpoint(stream, body),), round=Round.WHOLE)


async def until(true: Callable[[], bool], *, timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not true():
            await asyncio.sleep(0.01)
