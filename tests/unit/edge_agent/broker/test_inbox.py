import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from contract.messages import Clock as ClockStamp
from edge_agent.broker.inbox import Inbox


class TickingClock:
    """Each look is a millisecond later."""

    def __init__(self) -> None:
        self.now_ns = 5_000_000_000

    def wall_s(self) -> float:
        return 1.7e9 + self.now_ns / 1e9

    def mono_ns(self) -> int:
        self.now_ns += 1_000_000
        return self.now_ns

    def stamp(self) -> ClockStamp:
        return ClockStamp("boot", self.now_ns / 1e9, self.wall_s(), trusted=True)


def inbox(**bounds: int) -> Inbox:
    limits = {"max_batch": 3, "max_messages": 10, "max_bytes": 1000} | bounds
    return Inbox("s", clock=TickingClock(), **limits)


def put(box: Inbox, topic: str, payload: bytes = b"x", qos: int = 0) -> None:
    box.append(topic, payload, qos=qos, mid=qos and 7, dup=False, retained=False)


def test_nothing_is_none():
    assert inbox().take() is None


def test_order_size_and_arrival_times():
    box = inbox()
    for number in range(4):
        put(box, str(number))
    first, second = box.take(), box.take()
    assert first is not None
    assert second is not None
    assert (first.topics, second.topics) == (["0", "1", "2"], ["3"])
    assert first.session == "s"
    assert np.array_equal(np.diff(first.arrivals_ns), [1_000_000] * 2)
    assert np.allclose(np.diff(first.arrivals_s), 0.001, atol=1e-6)
    assert box.messages == box.payload_bytes == 0
    assert box.take() is None


def test_a_batch_holds_one_connection_only():
    box = inbox()
    box.begin_connection(1)
    put(box, "a")
    box.begin_connection(2)
    put(box, "b")
    first, second = box.take(), box.take()
    assert first is not None
    assert second is not None
    assert (first.connection, second.connection) == (1, 2)


def test_full_by_number_and_by_bytes():
    box = inbox()
    for number in range(10):
        put(box, str(number))
        assert box.full == (number == 9)
    assert [(box.take() is not None, box.roomy) for _ in range(2)] == [(True, False), (True, True)]
    heavy = inbox()
    put(heavy, "a", b"x" * 1000)
    assert heavy.full


@given(st.lists(st.sampled_from(["put", "take", "reconnect"]), max_size=60))
def test_nothing_is_lost_doubled_or_reordered(steps: list[str]):
    box, given_in, taken, connection = inbox(), 0, [], 0
    for step in steps:
        if step == "put":
            put(box, str(given_in), b"x" * (given_in % 5))
            given_in += 1
        elif step == "reconnect":
            connection += 1
            box.begin_connection(connection)
        elif (batch := box.take()) is not None:
            assert 1 <= len(batch) <= 3
            taken += batch.topics
    assert box.messages == given_in - len(taken)
    while (batch := box.take()) is not None:
        taken += batch.topics
    assert taken == [str(number) for number in range(given_in)]
    assert box.messages == box.payload_bytes == 0
