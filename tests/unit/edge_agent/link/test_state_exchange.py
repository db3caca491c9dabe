import asyncio
from contextlib import asynccontextmanager

from contract.encoding import decode, encode, expand
from contract.messages import (
    Clock,
    HubLoad,
    LaneReport,
    Revision,
    StateAnswer,
    StateReport,
    Watermark,
)
from contract.status import Health, Status
from contract.subjects import ENCODING
from edge_agent.errors import NoResponders
from edge_agent.link.state import StateExchange
from edge_agent.settings import HubSettings
from edge_agent.types import LinkState, Reply

SETTINGS = HubSettings(url="nats://twin", state_interval_s=3600, drain_state_interval_s=0.2)
ANSWER = StateAnswer("e1", watermarks={"tel": Watermark("ep", 3)}, load=HubLoad(1, 2.0))


class Hub:
    """A HubLink whose hub answers state requests."""

    def __init__(self) -> None:
        self.connection = 1
        self.health = Health.ONLINE
        self.answers: list[StateAnswer] = []
        self.away = False
        self.reports: list[StateReport] = []
        self.tries = 0

    def state(self) -> LinkState:
        return LinkState(self.health, 1.0, 0.0, "", self.connection)

    async def request(self, subject, body, *, headers, timeout_s) -> Reply:
        assert subject == "edge.v1.d.state"
        self.tries += 1
        if self.away:
            raise NoResponders("away")
        self.reports.append(decode(expand(body, headers[ENCODING]), StateReport))
        return Reply(Status.OK, encode(self.answers.pop(0) if self.answers else ANSWER))

    async def publish(self, subject, body, *, headers, timeout_s) -> None:
        raise AssertionError

    def send(self, subject, body) -> None:
        raise AssertionError


@asynccontextmanager
async def exchanging(hub, *, draining=lambda: False, settings=SETTINGS):
    got: list[tuple[StateReport, StateAnswer]] = []

    async def on_answer(report: StateReport, answer: StateAnswer) -> None:
        got.append((report, answer))

    def report() -> StateReport:
        lanes = {"tel": LaneReport("ep", 10, 9, 4)}
        return StateReport("0.1.0", Clock("b", 1.0, 2.0, trusted=True), lanes)

    exchange = StateExchange(
        hub, device="d", settings=settings, report=report, on_answer=on_answer, draining=draining
    )
    task = asyncio.create_task(exchange.run(), name="exchange under test")
    try:
        yield exchange, got
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_connection_is_followed_by_an_exchange_and_then_by_silence():
    hub = Hub()
    async with exchanging(hub) as (_, got):
        await asyncio.sleep(0.15)
        assert len(got) == 1
        report, answer = got[0]
        assert report.lanes["tel"].sent == 9
        assert answer == ANSWER


async def test_a_nudge_and_a_new_connection_each_ask_at_once():
    hub = Hub()
    async with exchanging(hub) as (exchange, got):
        await asyncio.sleep(0.05)
        exchange.nudge()
        await asyncio.sleep(0.05)
        assert len(got) == 2
        hub.connection = 2
        exchange.look()
        await asyncio.sleep(0.05)
        assert len(got) == 3


async def test_while_rows_wait_the_interval_is_short():
    hub = Hub()
    async with exchanging(hub, draining=lambda: True) as (_, got):
        await asyncio.sleep(0.75)
        assert 3 <= len(got) <= 5


async def test_revisions_are_asked_for_until_there_are_none():
    hub = Hub()
    revision = Revision("v", "s", "label", 1.0, 1.0, "m", 1, 0.0, seq=5)
    hub.answers = [StateAnswer("e", revisions=(revision,))] * 3
    async with exchanging(hub) as (_, got):
        await asyncio.sleep(0.4)
        assert [len(answer.revisions) for _, answer in got] == [1, 1, 1, 0]


async def test_without_a_connection_nothing_is_asked():
    hub = Hub()
    hub.connection = 0
    async with exchanging(hub, draining=lambda: True):
        await asyncio.sleep(0.3)
        assert hub.tries == 0


async def test_a_hub_that_is_away_is_looked_for_again_and_again():
    hub = Hub()
    hub.away, hub.health = True, Health.OFFLINE
    async with exchanging(hub) as (exchange, got):
        await asyncio.sleep(0.7)
        assert hub.tries == 2
        hub.away = False
        exchange.nudge()
        await asyncio.sleep(0.1)
        assert len(got) == 1
        await asyncio.sleep(0.6)
        assert len(got) == 2
