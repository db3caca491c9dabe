"""What every test gets: the event-loop guard, the skip rules, and fixtures of real servers.

Fixtures (each function-scoped, a fresh server on fixed loopback ports with its own storage):

    hub_nats          nats-server with JetStream, sync_interval: always, monitoring; no MQTT
                      (`tests.ack_subjects.both_ack_subjects`: with either form of acknowledgement subjects)
    field_nats        nats-server with an MQTT listener (ack_wait 2 s), the field's broker
    mosquitto_broker  mosquitto; mark the test `needs_mosquitto`

Their methods (stop, kill, start, restart, freeze, thaw …) are described in bench/servers.py.
`@pytest.mark.allow_blocking("reason")` switches the event-loop guard off for one test.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import hypothesis
import pytest

from bench.servers import Mosquitto, NatsServer, mosquitto, nats_server
from tests.loop_guard import event_loop_guard
from tests.skips import (
    pytest_collectreport,
    pytest_runtest_logreport,
    pytest_runtest_setup,
    pytest_sessionfinish,
    pytest_sessionstart,
    pytest_terminal_summary,
)

__all__ = [
    "event_loop_guard",
    "pytest_collectreport",
    "pytest_runtest_logreport",
    "pytest_runtest_setup",
    "pytest_sessionfinish",
    "pytest_sessionstart",
    "pytest_terminal_summary",
]

hypothesis.settings.register_profile("skerry", deadline=None, print_blob=True)
hypothesis.settings.load_profile("skerry")


@pytest.fixture
async def hub_nats(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[NatsServer]:
    extra_conf = str(getattr(request, "param", ""))
    async with nats_server(tmp_path, name="hub", extra_conf=extra_conf) as server:
        yield server


@pytest.fixture
async def field_nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with nats_server(tmp_path, name="field", mqtt=True) as server:
        yield server


@pytest.fixture
async def mosquitto_broker(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    async with mosquitto(tmp_path) as server:
        yield server
