"""The loop lag of several lives of an agent, read from the page that the agent really serves."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from bench.faults import lag
from bench.faults.lag import LagWatch
from edge_agent.observe.export import AgentMetrics, Readouts
from edge_agent.observe.metrics import Counters


class Life:
    """An agent that serves a fixed page."""

    http_port = 0

    def __init__(self) -> None:
        self.pid = 1

    def is_running(self) -> bool:
        return True


def page(*counts: int) -> dict[float, float]:
    """A histogram with edges of 10, 50 and 100 ms and no end."""
    return dict(zip((0.01, 0.05, 0.1, float("inf")), map(float, counts), strict=True))


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[dict[float, float]]:
    served: list[dict[float, float]] = []

    async def read(_: int) -> dict[float, float]:
        return served.pop(0)

    monkeypatch.setattr(lag, "_read", read)
    return served


@pytest.fixture
def watch(tmp_path: Path) -> LagWatch:
    agent: Any = Life()
    return LagWatch(tmp_path, agent)


async def test_lives_are_added_and_a_later_look_at_one_replaces_the_earlier(
    watch: LagWatch, pages: list[dict[float, float]]
):
    pages += [page(5, 10, 10, 10), page(10, 20, 20, 20), page(78, 79, 79, 80)]
    await watch.take()
    await watch.take()
    watch.agent.pid = 2  # type: ignore[misc]
    await watch.take()
    found = await watch.figures()
    assert (found.samples, found.above_ms, found.p99_ms) == (100, 10.0, 50.0)


async def test_what_the_drill_itself_held_up_is_left_out(
    watch: LagWatch, pages: list[dict[float, float]]
):
    pages += [page(50, 50, 50, 60), page(150, 150, 150, 160)]
    await watch.forget()
    await watch.take()
    found = await watch.figures()
    assert (found.samples, found.p99_ms) == (100, 10.0)


async def test_an_agent_that_does_not_answer_leaves_what_was_known(
    watch: LagWatch, pages: list[dict[float, float]]
):
    pages += [page(10, 10, 10, 10), {}]
    await watch.take()
    await watch.take()
    assert (await watch.figures()).samples == 10
    assert (await LagWatch(watch.folder, watch.agent).figures()).faults(50.0)


async def test_both_measures_of_the_machine_are_taken_while_it_watches(tmp_path: Path):
    agent: Any = Life()
    agent.pid = os.getpid()
    watch = LagWatch(tmp_path, agent)
    await watch.start()
    await asyncio.sleep(0.8)
    found = await watch.figures()
    assert found.control_p99_ms > 0
    assert found.cpu_wait_p99_ms >= 0
    assert list(tmp_path.iterdir()) == []


def test_the_histogram_is_found_on_the_page_that_agents_serve():
    counters = Counters()
    counters.loop_lag.add(30.0)
    page_text = AgentMetrics(counters, Readouts()).exposition()[0].decode()
    found = {
        float(limit.replace("+", "")): count for limit, count in lag._BUCKET.findall(page_text)
    }
    assert (found[0.025], found[0.05], found[float("inf")]) == ("0.0", "1.0", "1.0")
