"""Every ask ends in exactly one outcome; one caller's trouble is never another's."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from cloud_hub.errors import ModelFailed
from cloud_hub.inference.backend import BackendInfo
from cloud_hub.inference.batcher import Batcher
from cloud_hub.inference.cost import CostModel
from cloud_hub.inference.entry import ModelEntry, load_entry
from cloud_hub.inference.service import InferenceService
from cloud_hub.metrics import HubMetrics
from cloud_hub.settings import InferenceSettings
from cloud_hub.types import Ask, Outcome
from contract.status import Priority, Status
from contract.tensors import pack_array
from tests.unit.cloud_hub.tiny_package import BIG_BIAS, FEATURES, classifier_package, weights

POISON = 666.0
HOLLOW = 555.0


class ScriptedBackend:
    """The tiny classifier in numpy: fails on a poisoned row, and waits at a gate where one is set."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.gate: threading.Event | None = None
        self.rows_short = 0

    def describe(self) -> BackendInfo:
        return BackendInfo("scripted", "numpy", pads=False)

    def run(self, features: np.ndarray) -> np.ndarray:
        self.batches.append(len(features))
        if self.gate is not None:
            self.gate.wait(5)
        if (features == POISON).any():
            raise ModelFailed("poisoned")
        output: np.ndarray = features @ weights() + BIG_BIAS
        output[(features == HOLLOW).any(axis=1)] = np.nan
        return output

    def unload(self) -> None:
        return


@asynccontextmanager
async def _service(backend: ScriptedBackend, **options) -> AsyncIterator[InferenceService]:
    settings = InferenceSettings(**options)
    cost = CostModel()
    cost.seed(1, 0.0001)
    batcher = Batcher(cost, max_batch=8, max_rows=settings.max_queue_rows, max_bytes=10**6)
    entry = ModelEntry(classifier_package(), backend, cost, batcher, (1, 8))
    service = InferenceService({entry.family: entry}, settings, metrics=HubMetrics())
    running = asyncio.create_task(service.run(), name="service")
    yield service
    service.stop()
    async with asyncio.timeout(10):
        await running


def _ask(request: str, first: float = 0.1, **fields) -> Ask:
    features = np.full((1, FEATURES), 0.25, dtype=np.float32)
    features[0, 0] = first
    given: dict[str, Any] = {
        "device": "d1",
        "request": request,
        "priority": Priority.RT,
        "model": "tiny-class",
        "feature_digest": classifier_package().manifest.feature_digest,
        "features": pack_array(features),
        "arrived_mono_s": time.monotonic(),
        "budget_s": 5.0,
    }
    return Ask(**(given | fields))


async def test_an_answer_is_that_of_the_model_with_its_release():
    async with _service(ScriptedBackend()) as service:
        outcome = await service.judge(_ask("r1"))
    logits = np.array([0.1, 0.25, 0.25, 0.25]) @ weights() + BIG_BIAS
    share = np.exp(logits) / np.exp(logits).sum()
    assert outcome.status is Status.OK
    assert outcome.labels == (("low", "middle", "high")[int(np.argmax(share))],)
    assert abs(outcome.scores[0] - share.max()) < 1e-6
    assert (outcome.model, outcome.release, outcome.batch) == ("tiny-class", 3, 1)


async def test_while_one_batch_runs_the_next_gathers():
    backend = ScriptedBackend()
    backend.gate = threading.Event()
    async with _service(backend) as service:
        asks = [asyncio.create_task(service.judge(_ask(f"r{n}")), name=f"r{n}") for n in range(6)]
        await asyncio.sleep(0.05)
        backend.gate.set()
        outcomes = await asyncio.gather(*asks)
    assert {outcome.status for outcome in outcomes} == {Status.OK}
    assert sum(backend.batches) == 6
    assert len(backend.batches) <= 2


async def test_a_bad_row_fails_alone():
    backend = ScriptedBackend()
    backend.gate = threading.Event()
    async with _service(backend) as service:
        firsts = [0.1, 0.2, POISON, 0.3, HOLLOW, 0.4]
        asks = [service.judge(_ask(f"r{n}", first)) for n, first in enumerate(firsts)]
        gathered = asyncio.gather(*asks)
        await asyncio.sleep(0.05)
        backend.gate.set()
        outcomes = await gathered
    assert [outcome.status.value for outcome in outcomes] == [
        "OK",
        "OK",
        "INTERNAL",
        "OK",
        "INTERNAL",
        "OK",
    ]
    assert [outcomes[2].error, outcomes[4].error] == [
        "poisoned",
        "the model's output is not finite",
    ]


async def test_the_same_request_is_run_once_and_answered_alike():
    backend = ScriptedBackend()
    backend.gate = threading.Event()
    async with _service(backend) as service:
        both = asyncio.gather(service.judge(_ask("r1")), service.judge(_ask("r1")))
        await asyncio.sleep(0.02)
        backend.gate.set()
        first, second = await both
        third = await service.judge(_ask("r1", 0.9))
        other = await service.judge(_ask("r1", 0.9, device="d2"))
    assert first == second == third
    assert other != first
    assert sum(backend.batches) == 2


async def test_what_is_cancelled_before_its_turn_does_not_run():
    backend = ScriptedBackend()
    backend.gate = threading.Event()
    async with _service(backend) as service:
        running = asyncio.create_task(service.judge(_ask("r1")), name="r1")
        await asyncio.sleep(0.02)
        waiting = asyncio.create_task(service.judge(_ask("r2")), name="r2")
        await asyncio.sleep(0.02)
        service.cancel("d1", "r2")
        service.cancel("d1", "r1")
        assert (await waiting).status is Status.CANCELLED
        backend.gate.set()
        assert (await running).status is Status.OK
    assert sum(backend.batches) == 1


async def test_an_answer_that_comes_too_late_is_expired():
    backend = ScriptedBackend()
    backend.gate = threading.Event()
    async with _service(backend) as service:
        asked = asyncio.create_task(service.judge(_ask("r1", budget_s=0.03)), name="r1")
        await asyncio.sleep(0.08)
        backend.gate.set()
        assert (await asked).status is Status.EXPIRED


async def test_a_caller_that_raises_harms_nobody():
    outcomes: list[Outcome] = []

    def angry(_: Outcome) -> None:
        raise RuntimeError("gone away")

    async with _service(ScriptedBackend()) as service:
        service.submit(_ask("r1"), angry)
        service.submit(_ask("r2"), outcomes.append)
        async with asyncio.timeout(5):
            while not outcomes:
                await asyncio.sleep(0.01)
    assert [outcome.status for outcome in outcomes] == [Status.OK]


_NAN = np.full((1, FEATURES), np.nan, dtype=np.float32)


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"model": "nope"}, Status.NO_MODEL, "served: tiny-class"),
        ({"feature_digest": "0" * 64}, Status.BAD_INPUT, "another specification"),
        ({"features": pack_array(_NAN)}, Status.BAD_INPUT, "not finite"),
        ({"features": pack_array(_NAN[:, :2])}, Status.BAD_INPUT, "shape"),
        ({"features": pack_array(_NAN[:0])}, Status.BAD_INPUT, "shape"),
        ({"features": pack_array(_NAN.astype(np.float64))}, Status.BAD_INPUT, "float32"),
        (
            {"features": pack_array(np.zeros((9, FEATURES), np.float32))},
            Status.TOO_LARGE,
            "at most 8",
        ),
        ({"budget_s": 0.0}, Status.EXPIRED, "over"),
    ],
)
async def test_what_cannot_be_answered_never_reaches_the_model(fields, status, error):
    backend = ScriptedBackend()
    async with _service(backend) as service:
        outcome = await service.judge(_ask("r1", **fields))
    assert outcome.status is status
    assert error in outcome.error
    assert backend.batches == []


async def test_a_device_over_its_rate_is_busy_and_may_ask_again_under_the_same_id():
    async with _service(ScriptedBackend(), rate_per_device=50, burst_per_device=1) as service:
        assert (await service.judge(_ask("r1"))).status is Status.OK
        busy = await service.judge(_ask("r2"))
        assert busy.status is Status.BUSY
        assert 0 < busy.retry_after_ms <= 20
        await asyncio.sleep(busy.retry_after_ms / 1000 + 0.005)
        assert (await service.judge(_ask("r2"))).status is Status.OK
        assert (await service.judge(_ask("own", metered=False))).status is Status.OK


async def test_load_says_how_much_waits():
    backend = ScriptedBackend()
    backend.gate = threading.Event()
    async with _service(backend) as service:
        asks = asyncio.gather(*(service.judge(_ask(f"r{n}")) for n in range(4)))
        await asyncio.sleep(0.02)
        assert service.load().backlog_rows <= 4
        backend.gate.set()
        await asks
        assert service.load() == type(service.load())(0, 0.0)


async def test_a_loaded_entry_answers_as_its_golden_vectors_say():
    package = classifier_package()
    entry = await asyncio.to_thread(load_entry, package, InferenceSettings())
    judgement = await asyncio.to_thread(entry.judge, package.golden.features)
    assert judgement.labels.tolist() == package.golden.labels.tolist()
    assert entry.buckets == (1, 2, 4, 8, 16)
    assert entry.cost.predict(1) > 0
