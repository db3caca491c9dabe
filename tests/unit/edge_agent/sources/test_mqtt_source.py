import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from edge_agent.sources.mqtt import MqttSource
from edge_agent.types import MessageBatch


class Session:
    """A broker session in memory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: list[MessageBatch] = []
        self.acknowledged: list[MessageBatch] = []
        self.stopped = False
        self.wake: Callable[[], None] = lambda: None

    @property
    def ended(self) -> bool:
        return self.stopped and not self.batches

    def attach(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def take(self) -> MessageBatch | None:
        return self.batches.pop(0) if self.batches else None

    def acknowledge(self, batch: MessageBatch) -> None:
        self.acknowledged.append(batch)

    def arrive(self, topic: str) -> None:
        zero = np.zeros(1)
        batch = MessageBatch(
            self.name, [topic], [b""], [0], [0], [False], [False], zero, zero.astype(np.int64)
        )
        self.batches.append(batch)
        self.wake()

    def stop(self) -> None:
        self.stopped = True
        self.wake()


async def test_sessions_take_turns_and_acknowledgements_find_their_session():
    one, two = Session("one"), Session("two")
    source = MqttSource([one, two])
    for number in range(2):
        one.arrive(f"one/{number}")
        two.arrive(f"two/{number}")
    order = []
    for _ in range(4):
        batch = await source.next_batch()
        assert batch is not None
        source.acknowledge(batch)
        order.append(batch.topics[0])
    assert order == ["one/0", "two/0", "one/1", "two/1"]
    assert [batch.topics[0] for batch in two.acknowledged] == ["two/0", "two/1"]


async def test_it_waits_for_messages_and_ends_when_all_have_stopped():
    one, two = Session("one"), Session("two")
    source = MqttSource([one, two])
    waiting = asyncio.create_task(source.next_batch())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    two.arrive("late")
    batch = await asyncio.wait_for(waiting, 1)
    assert batch is not None
    one.arrive("last")
    one.stop()
    two.stop()
    last = await source.next_batch()
    assert last is not None
    assert await asyncio.wait_for(source.next_batch(), 1) is None


def test_two_sessions_of_one_name_are_refused():
    with pytest.raises(ValueError, match="same client id"):
        MqttSource([Session("one"), Session("one")])
