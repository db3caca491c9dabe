"""Rows through a real JetStream into a real database: stored once, watermarks never ahead of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.servers import NatsServer
from cloud_hub.hub.life import Hub
from cloud_hub.settings import Settings
from cloud_hub.store.fleet_queries import show_device
from contract import subjects
from contract.messages import Gap
from contract.status import Lane
from tests.ack_subjects import both_ack_subjects
from tests.integration.cloud_hub.rig import (
    DIGEST,
    Device,
    device,
    eventually,
    hub_settings,
    running_hub,
    tiny_models,
    until_read,
)
from tests.unit.cloud_hub.sample_rows import (
    escalation_row,
    gap_row,
    raw_row,
    verdict_row,
)

pytestmark = both_ack_subjects


@pytest.fixture
def settings(hub_nats: NatsServer, tmp_path: Path) -> Settings:
    return hub_settings(hub_nats, tmp_path, models=tiny_models(tmp_path))


@pytest.fixture
async def hub(settings: Settings) -> AsyncIterator[Hub]:
    async with running_hub(settings) as running:
        yield running


@pytest.fixture
async def d1(hub: Hub, hub_nats: NatsServer) -> AsyncIterator[Device]:
    async with device(hub_nats) as connected:
        yield connected


async def _applied(d1: Device, lane: Lane, seq: int):
    answer = await eventually(
        lambda: d1.state({lane: seq}), lambda a: a.watermarks[lane].applied >= seq
    )
    return answer.watermarks[lane]


async def _shown(settings: Settings, true=lambda _: True):
    return await until_read(
        settings, lambda c: show_device(c, "d1"), lambda found: found is not None and true(found)
    )


async def test_rows_that_come_again_under_other_message_ids_are_stored_once(
    d1: Device, settings: Settings
):
    rows = [raw_row(seq) for seq in range(1, 6)]
    for n in range(4):
        await d1.publish(rows, Lane.TEL, message_id=f"again-{n}")
    await d1.publish([raw_row(5), raw_row(6)], Lane.TEL)
    watermark = await _applied(d1, Lane.TEL, 6)
    assert (watermark.applied, watermark.missing) == (6, ())
    found = await _shown(settings)
    assert [(each["stream"], each["readings"]) for each in found["streams"]] == [("pump", 24)]


async def test_a_hole_is_told_as_missing_and_heals(d1: Device):
    await d1.publish([raw_row(1)], Lane.TEL)
    await d1.publish([raw_row(4), raw_row(5)], Lane.TEL)
    answer = await eventually(
        lambda: d1.state({Lane.TEL: 5}), lambda a: a.watermarks[Lane.TEL].missing != ()
    )
    watermark = answer.watermarks[Lane.TEL]
    assert (watermark.applied, watermark.missing) == (1, ((2, 3),))
    await d1.publish([raw_row(2), raw_row(3)], Lane.TEL)
    assert (await _applied(d1, Lane.TEL, 5)).missing == ()


async def test_what_was_lost_without_trace_shows_as_nothing_pending_below_sent(d1: Device):
    await d1.publish([raw_row(1)], Lane.TEL)
    answer = await eventually(
        lambda: d1.state({Lane.TEL: 3}), lambda a: a.watermarks[Lane.TEL].pending == 0
    )
    assert answer.watermarks[Lane.TEL].applied == 1


async def test_a_declared_gap_counts_as_applied(d1: Device, settings: Settings):
    await d1.publish([gap_row(1, Gap(Lane.TEL, 1, 4, 1, 16, "quota"))], Lane.EVT)
    await d1.publish([raw_row(5)], Lane.TEL)
    assert (await _applied(d1, Lane.TEL, 5)).missing == ()
    gaps = (await _shown(settings))["gaps"]
    assert (gaps["records"], gaps["readings"], gaps["exact"]) == (1, 16, True)


async def test_a_new_epoch_is_asked_for_and_kept_apart(d1: Device):
    await d1.publish([raw_row(1), raw_row(2)], Lane.TEL)
    await _applied(d1, Lane.TEL, 2)
    fresh = await d1.state({Lane.TEL: 0}, epoch="e2")
    assert (fresh.watermarks[Lane.TEL].epoch, fresh.watermarks[Lane.TEL].applied) == ("e2", 0)
    await d1.publish([raw_row(1)], Lane.TEL, epoch="e2")
    await eventually(
        lambda: d1.state({Lane.TEL: 1}, epoch="e2"), lambda a: a.watermarks[Lane.TEL].applied == 1
    )


async def test_poison_is_set_aside_and_nothing_else_is_lost(d1: Device, settings: Settings):
    jetstream = d1.client.jetstream()
    headers = {subjects.MSG_ID: "d1:e1:tel:2-3"}
    await d1.publish([raw_row(1)], Lane.TEL)
    await jetstream.publish("edge.v1.d1.tel", b"\xc1 not rows", headers=headers)
    await d1.publish([raw_row(4), verdict_row(5), raw_row(6)], Lane.TEL)
    assert (await _applied(d1, Lane.TEL, 6)).missing == ()
    found = await _shown(settings)
    assert found["streams"][0]["readings"] == 12
    assert sum(found["dead_letters"].values()) == 2


async def test_an_unchanged_state_answer_is_small(d1: Device):
    await d1.publish([raw_row(1)], Lane.TEL)
    await _applied(d1, Lane.TEL, 1)
    first = await d1.state({Lane.TEL: 1})
    second = await d1.state({Lane.TEL: 1}, etag=first.etag)
    assert (first.unchanged, second.unchanged, second.watermarks) == (False, True, {})


async def test_an_escalation_comes_back_as_one_revision_after_a_nudge(
    d1: Device, settings: Settings
):
    nudges = await d1.client.subscribe(subjects.nudge_subject("d1"))
    rows = [escalation_row(n, f"v{n}", digest=DIGEST) for n in range(1, 4)]
    for n in range(3):
        await d1.publish(rows, Lane.BULK, message_id=f"again-{n}")
    answer = await eventually(d1.state, lambda a: len(a.revisions) == 3)
    assert sorted(each.verdict for each in answer.revisions) == ["v1", "v2", "v3"]
    assert [each.seq for each in answer.revisions] == [1, 2, 3]
    assert {(each.model, each.release) for each in answer.revisions} == {("tiny-class", 3)}
    await nudges.next_msg(timeout=5)
    assert len((await d1.state(revised_to=2)).revisions) == 1
    assert (await d1.state(revised_to=3)).revisions == ()
    found = await _shown(settings, lambda f: f["escalations"].get("answered") == 3)
    assert found["revisions"] == 3


async def test_a_restarted_hub_revises_nothing_twice_and_nudges_whom_it_knows(
    hub_nats: NatsServer, settings: Settings
):
    async with device(hub_nats) as d1:
        async with running_hub(settings):
            await d1.publish([escalation_row(1, "v1", digest=DIGEST)], Lane.BULK)
            await eventually(d1.state, lambda a: len(a.revisions) == 1)
        nudges = await d1.client.subscribe(subjects.nudge_subject("d1"))
        await d1.client.flush()
        async with running_hub(settings):
            await nudges.next_msg(timeout=5)
            await d1.publish(
                [escalation_row(1, "v1", digest=DIGEST)], Lane.BULK, message_id="again"
            )
            await _applied(d1, Lane.BULK, 1)
            assert [each.seq for each in (await d1.state()).revisions] == [1]


async def test_a_backlog_that_waited_for_a_hub_is_stored_whole(
    hub_nats: NatsServer, settings: Settings
):
    async with running_hub(settings):
        pass
    async with device(hub_nats) as d1:
        for first in range(1, 301, 3):
            await d1.publish([raw_row(seq) for seq in range(first, first + 3)], Lane.TEL)
        async with running_hub(settings):
            assert (await _applied(d1, Lane.TEL, 300)).missing == ()
            assert (await _shown(settings))["streams"][0]["readings"] == 1200
