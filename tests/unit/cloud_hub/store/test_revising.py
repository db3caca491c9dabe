"""Each escalation is answered once, under numbers that a device can follow."""

from pathlib import Path

from cloud_hub.ingest.decode import decode_deliveries
from cloud_hub.store.apply import apply_batch
from cloud_hub.store.database import Database, writing
from cloud_hub.store.revising import (
    NO_MODEL,
    REFUSED,
    answer_escalation,
    renumber_revisions,
    revisions_above,
    revisions_given,
    revive_escalations,
    settle_escalation,
    waiting_escalations,
)
from contract.messages import Revision
from contract.status import Lane
from tests.unit.cloud_hub.sample_rows import delivery, escalation_row


def _url(folder: Path) -> str:
    return f"sqlite+aiosqlite:///{folder / 'hub.db'}"


def _revision(verdict: str) -> Revision:
    return Revision(verdict, "pump", "high", 0.9, 0.8, "tiny-class", 3, 100.0)


async def _escalate(database: Database, *verdicts: str, device: str = "d1") -> None:
    rows = [escalation_row(n + 1, each, digest="x") for n, each in enumerate(verdicts)]
    batch = decode_deliveries([delivery(rows, Lane.BULK, device=device)], Lane.BULK, received_s=1.0)
    await database.write(lambda c: apply_batch(c, batch, max_dead_letters=1))


async def _answer(database: Database, verdict: str, device: str = "d1") -> int:
    return await database.write(
        lambda c: answer_escalation(c, device, _revision(verdict), made_s=2.0)
    )


async def _settle(database: Database, verdict: str, state: str) -> None:
    await database.write(
        lambda c: settle_escalation(c, "d1", verdict, state=state, reason="why", attempts=1)
    )


async def test_an_escalation_is_answered_once_even_after_redelivery(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        await _escalate(database, "v1", "v2")
        assert [await _answer(database, v) for v in ("v1", "v1", "v2")] == [1, 0, 2]
        await _escalate(database, "v1", "v2")
        assert await database.read(lambda c: waiting_escalations(c, limit=10)) == []
        found = await database.read(lambda c: revisions_above(c, "d1", 0, limit=10))
    assert [(each.verdict, each.seq) for each in found] == [("v1", 1), ("v2", 2)]


async def test_devices_have_numbers_of_their_own(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        await _escalate(database, "v1")
        await _escalate(database, "v1", device="d2")
        assert await _answer(database, "v1") == 1
        assert await _answer(database, "v1", device="d2") == 1
        above = await database.read(lambda c: revisions_above(c, "d2", 1, limit=10))
    assert above == ()


async def test_what_was_refused_stays_so_and_what_had_no_model_comes_back(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        await _escalate(database, "v1", "v2")
        for verdict, state in (("v1", REFUSED), ("v2", NO_MODEL)):
            await _settle(database, verdict, state)
        assert await database.read(lambda c: waiting_escalations(c, limit=10)) == []
        assert await database.write(lambda c: revive_escalations(c, ("other",))) == 0
        assert await database.write(lambda c: revive_escalations(c, ("tiny-class",))) == 1
        waiting = await database.read(lambda c: waiting_escalations(c, limit=10))
    assert [each.escalation.verdict for each in waiting] == ["v2"]


async def test_a_device_that_has_seen_higher_numbers_gets_higher_ones(tmp_path: Path):
    async with writing(_url(tmp_path)) as database:
        await _escalate(database, "v1", "v2", "v3")
        for verdict in ("v1", "v2"):
            await _answer(database, verdict)
        await database.write(lambda c: renumber_revisions(c, "d1", 100))
        await database.write(lambda c: renumber_revisions(c, "d1", 100))
        assert await _answer(database, "v3") == 103
        found = await database.read(lambda c: revisions_above(c, "d1", 100, limit=10))
        given = await database.read(lambda c: revisions_given(c, "d1"))
    assert [each.seq for each in found] == [101, 102, 103]
    assert given == 103
