"""The loop from messages to commits: what is stored at once, what may wait, and when is acknowledged."""

import asyncio

import pytest

from contract.status import RowClass
from edge_agent.agent.emitting import Emitter
from edge_agent.agent.ingest import Ingest
from edge_agent.observe.metrics import Counters
from edge_agent.observe.rollups import Rollups
from edge_agent.outputs.mqtt import MqttOutput
from edge_agent.pipeline.core import ALONE
from edge_agent.sources.redelivery import Redelivery
from edge_agent.types import Commit, MessageBatch, Urgency
from tests.fakes.batches import message_batch
from tests.fakes.clocks import StandingClock
from tests.fakes.pipelines import pipeline_of
from tests.fakes.settings import settings_of, stream

PLAIN = [("site/1", {"flow": 1.0}), ("site/1", {"flow": 2.0})]
ALARM = [("site/1", {"flow": 99.0})]
JUNK = [("site/1", b"\xff no json")]


class StoreTwin:
    """Takes commits and lets the test say when they are stored."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.futures: list[asyncio.Future[int]] = []

    def submit(self, commit: Commit) -> asyncio.Future[int]:
        self.commits.append(commit)
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    async def ready(self) -> None:
        return

    def checkpoint_due(self) -> bool:
        return False


class SourceTwin:
    def __init__(self) -> None:
        self.acknowledged: list[MessageBatch] = []

    async def next_batch(self) -> MessageBatch | None:
        return None

    def acknowledge(self, batch: MessageBatch) -> None:
        self.acknowledged.append(batch)


class Bench:
    """An ingest over twins."""

    def __init__(self, *, relaxed: tuple[str, ...] = ()) -> None:
        self.store, self.source = StoreTwin(), SourceTwin()
        clock, counters = StandingClock(), Counters()
        rollups = Rollups(interval_s=60, now_s=clock.wall_s())
        self.ingest = Ingest(
            self.source,
            pipeline_of(settings_of(stream(channels={"flow": {"alarm_above": 50}}))),
            self.store,
            emitter=Emitter(
                MqttOutput([], prefix="p/"),
                counters=counters,
                rollups=rollups,
                clock=clock,
                deadline_ms=lambda _: 250.0,
            ),
            redelivery=Redelivery(),
            counters=counters,
            rollups=rollups,
            clock=clock,
            link=lambda: ALONE,
            relaxed=relaxed,
        )
        self.ingest.take(message_batch([("site/1", {"flow": 1.5})], at_s=1_796_000_000))
        self.store.commits.clear()
        self.store.futures.clear()

    def acknowledged(self) -> list[list[int]]:
        return [batch.mids for batch in self.source.acknowledged]

    def take(self, items, *, qos=0, at_s=1_796_000_100, session="twin", mid=50):
        batch = message_batch(items, qos=qos, at_s=at_s, session=session, first_mid=mid)
        self.ingest.take(batch)
        return batch


async def test_readings_at_qos_0_may_wait_only_where_the_broker_is_set_so():
    bench = Bench(relaxed=("twin",))
    bench.take(PLAIN)
    bench.take(PLAIN, session="another", at_s=1_796_000_200)
    assert [commit.urgency for commit in bench.store.commits] == [Urgency.SOON, Urgency.NOW]


@pytest.mark.parametrize(("items", "qos"), [(PLAIN, 1), (ALARM, 0)], ids=["qos 1", "alarm"])
async def test_qos_1_events_and_alarms_never_wait(items, qos):
    bench = Bench(relaxed=("twin",))
    bench.take(items, qos=qos)
    (commit,) = bench.store.commits
    assert commit.urgency is Urgency.NOW
    assert any(row.kind is RowClass.ALARM for row in commit.rows) == (items is ALARM)


async def test_a_commit_says_how_many_messages_wait_for_it():
    bench = Bench()
    bench.take(PLAIN, qos=1)
    bench.take(PLAIN, qos=0, at_s=1_796_000_200)
    assert [commit.messages for commit in bench.store.commits] == [2, 0]


async def test_messages_that_lead_to_nothing_wait_their_turn_and_are_counted_too():
    bench = Bench()
    first = bench.take(PLAIN, qos=1)
    junk = bench.take(JUNK, qos=1, mid=60)
    assert [commit.messages for commit in bench.store.commits] == [2, 1]
    assert bench.source.acknowledged == []
    for future in bench.store.futures:
        future.set_result(1)
        await asyncio.sleep(0)
    assert bench.acknowledged() == [first.mids, junk.mids]
    after = bench.take(JUNK, qos=1, mid=70)
    assert len(bench.store.commits) == 2
    assert bench.acknowledged()[-1] == after.mids


async def test_repeats_of_what_waits_are_counted_once_and_keep_no_payload():
    bench = Bench()
    bench.take(PLAIN, qos=1)
    again = message_batch(PLAIN, qos=1, at_s=1_796_000_100, first_mid=50, dup=True)
    bench.ingest.take(again)
    assert [commit.messages for commit in bench.store.commits] == [2]
    bench.store.futures[0].set_result(1)
    await asyncio.sleep(0)
    assert bench.acknowledged() == [[50, 51], [50, 51]]
    assert all(batch.payloads == [] for batch in bench.source.acknowledged)
