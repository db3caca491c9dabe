import json
from typing import Any

import pytest
import structlog

from edge_agent.observe.events import Event
from edge_agent.observe.logs import Repeats, configure_logging, get_logger, mask_secrets


class Time:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def passes(repeats: Repeats, **event: Any) -> dict[str, Any] | None:
    try:
        return dict(repeats(None, "info", event))
    except structlog.DropEvent:
        return None


def test_a_repeat_within_a_minute_is_dropped_and_counted():
    now = Time()
    repeats = Repeats(now_s=now)
    assert passes(repeats, event="lost", broker="a", why="x")
    for _ in range(3):
        assert passes(repeats, event="lost", broker="a", why="y") is None
    assert passes(repeats, event="lost", broker="b")
    assert passes(repeats, event="found", broker="a")
    now.now_s += 60
    assert passes(repeats, event="lost", broker="a") == {
        "event": "lost",
        "broker": "a",
        "suppressed": 3,
    }
    now.now_s += 60
    assert passes(repeats, event="lost", broker="a") == {"event": "lost", "broker": "a"}


def test_the_memory_of_repeats_is_bounded():
    repeats = Repeats(max_kinds=3, now_s=Time())
    for number in range(10):
        assert passes(repeats, event="e", broker=number)
    assert passes(repeats, event="e", broker=9) is None
    assert passes(repeats, event="e", broker=0)


def test_secrets_are_masked():
    event = mask_secrets(
        None,
        "info",
        {"password": "p", "api_key": "k", "url": "mqtt://me:hush@host:1", "why": "nats://u:p@h x"},
    )
    assert event == {
        "password": "***",
        "api_key": "***",
        "url": "mqtt://***@host:1",
        "why": "nats://***@h x",
    }


@pytest.fixture
def _unconfigured():
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("_unconfigured")
def test_a_line_is_json_on_stderr_with_its_event_level_and_time(
    capsys: pytest.CaptureFixture[str],
):
    configure_logging("info")
    log = get_logger(broker="mqtt://b:1")
    log.info(Event.BROKER_CONNECTED, session_present=True)
    log.info(Event.BROKER_CONNECTED, session_present=False)
    log.debug(Event.BROKER_LOST)
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert captured.out == ""
    parsed = json.loads(line)
    assert parsed.pop("timestamp").endswith("Z")
    assert parsed == {
        "event": "broker_connected",
        "level": "info",
        "broker": "mqtt://b:1",
        "session_present": True,
    }


@pytest.mark.usefixtures("_unconfigured")
def test_people_can_have_plain_text(capsys: pytest.CaptureFixture[str]):
    configure_logging("debug", "console")
    get_logger().debug(Event.AGENT_READY)
    assert "agent_ready" in capsys.readouterr().err


def test_every_event_has_one_name_in_lower_case():
    assert all(event.value == event.name.lower() for event in Event)
