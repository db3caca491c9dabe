"""Stored escalations are answered once; what cannot be answered says why."""

import asyncio
from pathlib import Path

from cloud_hub.ingest.decode import decode_deliveries
from cloud_hub.ingest.escalations import EscalationDesk
from cloud_hub.metrics import HubMetrics
from cloud_hub.store.apply import apply_batch
from cloud_hub.store.database import Database, writing
from cloud_hub.store.fleet_queries import show_device
from cloud_hub.store.revising import revisions_above
from cloud_hub.types import Ask, Outcome
from contract.status import Lane, Priority, Status
from tests.unit.cloud_hub.sample_rows import delivery, escalation_row


class Models:
    """A twin of the inference service: answers by a script, then with OK."""

    def __init__(self, *statuses: Status) -> None:
        self.statuses = list(statuses)
        self.asks: list[Ask] = []

    async def judge(self, ask: Ask) -> Outcome:
        self.asks.append(ask)
        status = self.statuses.pop(0) if self.statuses else Status.OK
        if status is not Status.OK:
            return Outcome(status, error="scripted", retry_after_ms=1.0)
        return Outcome(Status.OK, "tiny-class", 3, ("high",), (0.9,), (0.8,))


async def _escalate(database: Database, *verdicts: str) -> None:
    rows = [escalation_row(n + 1, each, digest="x") for n, each in enumerate(verdicts)]
    batch = decode_deliveries([delivery(rows, Lane.BULK)], Lane.BULK, received_s=1.0)
    await database.write(lambda c: apply_batch(c, batch, max_dead_letters=1))


async def _run(database: Database, models: Models, *, until: int) -> list[str]:
    """Runs a desk until the models were asked so many times; returns who was said to be revised."""
    revised: list[str] = []
    desk = EscalationDesk(
        database=database, judge=models, metrics=HubMetrics(), on_revised=revised.append
    )
    running = asyncio.create_task(desk.run(models=("tiny-class",)), name="desk")
    async with asyncio.timeout(20):
        while len(models.asks) < until:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
    desk.stop()
    await running
    return revised


async def _counts(database: Database) -> dict[str, int]:
    shown = await database.read(lambda c: show_device(c, "d1"))
    assert shown is not None
    counts: dict[str, int] = shown["escalations"]
    return counts


def _url(folder: Path) -> str:
    return f"sqlite+aiosqlite:///{folder / 'hub.db'}"


async def test_each_becomes_one_revision_and_its_device_is_told(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        await _escalate(database, "v1", "v2")
        models = Models()
        assert await _run(database, models, until=2) == ["d1", "d1"]
        await _escalate(database, "v1", "v2")
        assert await _run(database, Models(), until=0) == []
        found = await database.read(lambda c: revisions_above(c, "d1", 0, limit=10))
    assert [(each.label, each.confidence) for each in found] == [("high", 0.8)] * 2
    assert {ask.priority for ask in models.asks} == {Priority.BULK}
    assert {ask.budget_s for ask in models.asks} == {None}


async def test_a_busy_hub_asks_itself_again(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        await _escalate(database, "v1")
        assert await _run(database, Models(Status.BUSY, Status.BUSY), until=3) == ["d1"]


async def test_bad_input_is_refused_for_good(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        await _escalate(database, "v1")
        await _run(database, Models(Status.BAD_INPUT), until=1)
        assert await _counts(database) == {"refused": 1}
        await _run(database, Models(), until=0)
        assert await _counts(database) == {"refused": 1}


async def test_a_missing_model_is_asked_again_by_the_next_hub_that_has_it(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        await _escalate(database, "v1")
        await _run(database, Models(Status.NO_MODEL), until=1)
        assert await _counts(database) == {"no_model": 1}
        await _run(database, Models(), until=1)
        assert await _counts(database) == {"answered": 1}
