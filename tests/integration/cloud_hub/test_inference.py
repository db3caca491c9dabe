"""Requests over a real nats-server: answered in time, or refused with a status and a reason."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import nats.errors
import numpy as np
import pytest

from bench.servers import NatsServer
from cloud_hub.hub.life import Hub
from contract import subjects
from contract.encoding import encode
from contract.messages import InferRequest
from contract.status import Priority, Status
from contract.tensors import pack_array
from tests.integration.cloud_hub.rig import (
    DIGEST,
    Device,
    device,
    hub_settings,
    running_hub,
    tiny_models,
    until,
)
from tests.unit.cloud_hub.tiny_package import FEATURES

_NAN = pack_array(np.full((1, FEATURES), np.nan, dtype=np.float32))
_SHORT = pack_array(np.zeros((1, FEATURES - 1), dtype=np.float32))


@pytest.fixture
async def hub(hub_nats: NatsServer, tmp_path: Path) -> AsyncIterator[Hub]:
    async with running_hub(
        hub_settings(hub_nats, tmp_path, models=tiny_models(tmp_path))
    ) as running:
        yield running


@pytest.fixture
async def d1(hub: Hub, hub_nats: NatsServer) -> AsyncIterator[Device]:
    async with device(hub_nats) as connected:
        yield connected


async def test_a_request_is_answered_within_its_deadline_with_its_times(d1: Device):
    status, answer, message = await d1.ask(rows=3)
    assert status is Status.OK
    assert (answer.model, answer.release, len(answer.labels)) == ("tiny-class", 3, 3)
    assert message.headers is not None
    assert float(message.headers[subjects.QUEUE_MS]) + float(message.headers[subjects.RUN_MS]) < 500
    assert message.headers[subjects.BATCH] == "3"


async def test_many_at_once_are_answered_each_with_its_own_row(d1: Device):
    firsts = np.linspace(-5, 5, 60)
    together = await asyncio.gather(*(d1.ask(float(first)) for first in firsts))
    alone = [await d1.ask(float(first)) for first in firsts[::10]]
    assert {status for status, _, _ in together} == {Status.OK}
    for (_, both, _), (_, single, _) in zip(together[::10], alone, strict=True):
        assert both.labels == single.labels
        assert np.allclose(both.scores, single.scores, atol=1e-6)


async def test_an_anomaly_model_answers_with_its_own_labels(d1: Device):
    _, calm, _ = await d1.ask(0.0, model="tiny-anomaly")
    _, wild, _ = await d1.ask(100.0, model="tiny-anomaly")
    assert (calm.labels, wild.labels) == (("normal",), ("anomaly",))


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"model": "nope"}, Status.NO_MODEL, "no model 'nope'"),
        ({"digest": "0" * 64}, Status.BAD_INPUT, "another specification"),
        ({"features": _NAN}, Status.BAD_INPUT, "not finite"),
        ({"features": _SHORT}, Status.BAD_INPUT, "shape"),
        ({"budget_ms": 0.0}, Status.EXPIRED, "over"),
        ({"budget_ms": "soon"}, Status.BAD_INPUT, "not a number"),
        ({"request": "not a token"}, Status.BAD_INPUT, "Edge-Request"),
        ({"priority": "asap"}, Status.BAD_INPUT, "unknown priority"),
        ({"rows": 17}, Status.TOO_LARGE, "at most 16"),
    ],
)
async def test_what_cannot_be_answered_is_refused_with_a_reason(d1: Device, fields, status, error):
    found, answer, _ = await d1.ask(**fields)
    assert (found, answer.labels) == (status, ())
    assert error in answer.error


async def test_bytes_that_are_no_request_get_bad_input(d1: Device):
    message = await d1.client.request(
        subjects.infer_subject("d1", Priority.RT, "tiny-class"),
        b"\xc1 nonsense",
        headers={subjects.REQUEST: "r1"},
        timeout=5,
    )
    assert message.headers is not None
    assert message.headers[subjects.STATUS] == Status.BAD_INPUT


async def test_a_device_that_asks_too_much_is_busy(hub_nats: NatsServer, tmp_path: Path):
    slow = {"rate_per_device": 20.0, "burst_per_device": 2.0}
    settings = hub_settings(hub_nats, tmp_path, models=tiny_models(tmp_path), inference=slow)
    async with running_hub(settings), device(hub_nats) as d1, device(hub_nats, "d2") as d2:
        answers = [await d1.ask(request=f"r{n}") for n in range(3)]
        assert [status for status, _, _ in answers] == [Status.OK, Status.OK, Status.BUSY]
        headers = answers[2][2].headers
        assert headers is not None
        retry_ms = float(headers[subjects.RETRY_AFTER_MS])
        assert 0 < retry_ms <= 50
        assert (await d2.ask())[0] is Status.OK
        await asyncio.sleep(retry_ms / 1000 + 0.01)
        assert (await d1.ask(request="r2"))[0] is Status.OK


async def test_the_same_request_id_is_run_once(hub: Hub, d1: Device):
    _, first, _ = await d1.ask(0.1, request="same")
    _, second, _ = await d1.ask(5.0, request="same")
    assert first == second
    ran = hub.metrics.registry.get_sample_value("cloud_hub_batch_rows_sum", {"model": "tiny-class"})
    assert ran == 1


async def test_a_reply_subject_of_somebody_else_is_never_answered(hub: Hub, d1: Device):
    body = encode(InferRequest("tiny-class", DIGEST, _NAN))
    subject = subjects.infer_subject("d1", Priority.RT, "tiny-class")
    for reply in ("_INBOX_d2.x", "edge.v1.d2.nudge", "_INBOX_d1"):
        with pytest.raises(nats.errors.TimeoutError):
            await _ask_with_reply(d1, subject, body, reply)
    dropped = hub.metrics.registry.get_sample_value(
        "cloud_hub_dropped_messages_total", {"reason": "foreign_reply"}
    )
    assert dropped == 3


async def _ask_with_reply(d1: Device, subject: str, body: bytes, reply: str) -> None:
    listening = await d1.client.subscribe(reply)
    await d1.client.publish(subject, body, reply, headers={subjects.REQUEST: "r1"})
    try:
        await listening.next_msg(timeout=0.3)
    finally:
        await listening.unsubscribe()


async def test_a_cancelled_request_is_told_so_or_answered_but_never_left(d1: Device):
    asked = [asyncio.create_task(d1.ask(request=f"r{n}"), name=f"r{n}") for n in range(20)]
    await asyncio.sleep(0)
    for n in range(20):
        await d1.client.publish(subjects.cancel_subject("d1", f"r{n}"), b"")
    statuses = {status for status, _, _ in await asyncio.gather(*asked)}
    assert statuses <= {Status.OK, Status.CANCELLED}


async def test_the_hub_answers_again_after_its_server_was_killed(
    hub: Hub, hub_nats: NatsServer, d1: Device
):
    assert (await d1.ask())[0] is Status.OK
    await hub_nats.kill()
    await until(lambda: not hub.ready()["nats_connected"])
    await hub_nats.start()
    await until(lambda: all(hub.ready().values()))
    async with device(hub_nats, "d2") as d2:
        assert (await d2.ask())[0] is Status.OK
