import asyncio

import pytest

from contract.status import Health, Priority, Status
from contract.subjects import BUDGET_MS, REQUEST
from edge_agent.errors import LinkTimeout, Refused
from edge_agent.link.inference import HubInference
from edge_agent.types import LinkState, Reply


class Replies:
    """A HubLink that gives the replies it was made with, in order."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[str, dict[str, str], float]] = []
        self.sent: list[str] = []

    def state(self) -> LinkState:
        return LinkState(Health.ONLINE, 20.0, 0.0)

    async def request(self, subject, body, *, headers, timeout_s) -> Reply:
        self.asked.append((subject, headers, timeout_s))
        if not self.replies:
            await asyncio.sleep(60)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def publish(self, subject, body, *, headers, timeout_s) -> None:
        raise AssertionError("an inference request is never stored")

    def send(self, subject, body) -> None:
        self.sent.append(subject)


async def ask(link, *, budget_ms=100.0, timeout_s=0.1, request_id="r1"):
    return await HubInference(link, device="d").ask(
        request_id=request_id,
        model="motion-class",
        priority=Priority.RT,
        body=b"x",
        budget_ms=budget_ms,
        timeout_s=timeout_s,
    )


async def test_the_hub_is_told_the_budget_less_half_the_round_trip():
    link = Replies(Reply(Status.OK, b"answer"))
    assert (await ask(link)).body == b"answer"
    ((subject, headers, timeout_s),) = link.asked
    assert subject == "edge.v1.d.inf.rt.motion-class"
    assert headers[REQUEST] == "r1"
    assert float(headers[BUDGET_MS]) == 90.0
    assert timeout_s == 0.1


async def test_busy_is_tried_once_more_with_the_same_id_and_what_is_left():
    link = Replies(Reply(Status.BUSY, b"", retry_after_ms=20), Reply(Status.OK, b""))
    assert (await ask(link)).status is Status.OK
    first, second = link.asked
    assert second[1][REQUEST] == first[1][REQUEST] == "r1"
    assert float(second[1][BUDGET_MS]) <= 70.0
    assert second[2] <= 0.08


async def test_busy_twice_is_busy():
    busy = Reply(Status.BUSY, b"", retry_after_ms=1)
    link = Replies(busy, busy, Reply(Status.OK, b""))
    assert (await ask(link)).status is Status.BUSY
    assert len(link.asked) == 2


async def test_busy_without_time_for_a_second_try_is_busy_at_once():
    link = Replies(Reply(Status.BUSY, b"", retry_after_ms=95), Reply(Status.OK, b""))
    assert (await ask(link)).status is Status.BUSY
    assert len(link.asked) == 1


async def test_what_is_not_answered_in_time_is_cancelled_at_the_hub():
    link = Replies(LinkTimeout("late"))
    with pytest.raises(LinkTimeout):
        await ask(link)
    assert link.sent == ["edge.v1.d.can.r1"]


async def test_what_nobody_waits_for_is_cancelled_at_the_hub():
    link = Replies()
    task = asyncio.create_task(ask(link))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert link.sent == ["edge.v1.d.can.r1"]


async def test_an_id_that_would_split_the_subject_is_refused():
    with pytest.raises(Refused):
        await ask(Replies(), request_id="a.b")
