"""What counts as progress: slow is not stuck, a fault that has a name is not a hang, silence is."""

import asyncio
from dataclasses import replace

import pytest

from edge_agent.agent import progress
from edge_agent.agent.progress import Progress
from edge_agent.agent.volatile import VolatileStore
from edge_agent.agent.watchdog import Watchdog
from edge_agent.errors import StoreError
from edge_agent.observe.sd_notify import Supervisor


class Store(VolatileStore):
    """An outbox that answers, refuses or hangs as told."""

    def __init__(self) -> None:
        super().__init__(lambda: "", quota_bytes=1)
        self.fault = ""
        self.answers = asyncio.Event()
        self.answers.set()
        self.refuses = False

    def state(self):
        return replace(super().state(), fault=self.fault)

    async def read(self, _lane, *, after, max_bytes, max_rows):
        if self.refuses:
            raise StoreError("too many operations wait")
        await self.answers.wait()
        return []


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "STUCK_S", 0.2)
    monkeypatch.setattr(progress, "PROBE_EVERY_S", 0.01)


async def _probed(store: Store, *, for_s: float) -> Progress:
    made = Progress(store, undecided_s=lambda: 0.0)
    task = asyncio.create_task(made.probe(), name="probe")
    await asyncio.sleep(for_s)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return made


async def test_an_outbox_that_answers_is_progress():
    assert (await _probed(Store(), for_s=0.4)).stuck() == ""


async def test_an_outbox_that_is_silent_is_stuck():
    store = Store()
    store.answers.clear()
    assert "the outbox has not answered" in (await _probed(store, for_s=0.4)).stuck()


async def test_an_outbox_that_refuses_for_long_is_stuck():
    store = Store()
    store.refuses = True
    assert "the outbox has not answered" in (await _probed(store, for_s=0.4)).stuck()


async def test_a_fault_with_a_name_is_no_hang():
    store = Store()
    store.answers.clear()
    store.fault = "SQLITE_IOERR"
    made = await _probed(store, for_s=0.4)
    assert made.stuck() == ""
    store.fault = ""
    assert made.stuck() == "", "what healed has as long to answer as ever"
    store.fault = "SQLITE_IOERR"
    assert Progress(store, undecided_s=lambda: 1e9).stuck() == ""


async def test_an_undecided_batch_is_stuck():
    made = Progress(Store(), undecided_s=lambda: 7.0)
    assert made.stuck() == "a batch of messages is undecided for 7 s"


async def test_a_task_that_has_ended_is_stuck():
    made = Progress(Store(), undecided_s=lambda: 0.0)
    task = asyncio.create_task(asyncio.sleep(0), name="broker-a")
    made.must_live([task])
    assert made.stuck() == ""
    await task
    assert made.stuck() == "the task broker-a has ended"


class _Told(Supervisor):
    def __init__(self) -> None:
        super().__init__(None)
        self.lines: list[str] = []

    def _send(self, state: str) -> None:
        self.lines.append(state)


@pytest.mark.parametrize(("limit_s", "pings"), [(30.0, 2), (0.0, 0)])
def test_pings_go_where_systemd_asked_for_them_and_a_sentence_once(limit_s: float, pings: int):
    told = _Told()
    watchdog = Watchdog(
        told, limit_s=limit_s, stuck=lambda: "", sentence=lambda: "ready: all\nwell"
    )
    watchdog.look()
    watchdog.look()
    assert told.lines.count("WATCHDOG=1") == pings
    assert told.lines.count("STATUS=ready: all well") == 1


def test_what_is_stuck_is_said_instead_of_a_ping():
    told = _Told()
    watchdog = Watchdog(told, limit_s=30, stuck=lambda: "a batch", sentence=lambda: "ready")
    watchdog.look()
    assert told.lines == ["STATUS=stuck: a batch"]
