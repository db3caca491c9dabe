"""A warning repeats at most once a minute, and says how often it was held back."""

import os

import pytest
import structlog

from cloud_hub.log import RepeatLimit, Unbreakable


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _say(
    limit: RepeatLimit, event: str, method: str = "warning", **keys: object
) -> dict[str, object] | None:
    try:
        return dict(limit(None, method, {"event": event, **keys}))
    except structlog.DropEvent:
        return None


def test_a_repeated_warning_passes_once_a_minute_and_counts_the_rest():
    clock = Clock()
    limit = RepeatLimit(clock=clock)
    assert _say(limit, "down") == {"event": "down"}
    assert [_say(limit, "down") for _ in range(5)] == [None] * 5
    clock.now = 61.0
    assert _say(limit, "down") == {"event": "down", "repeated": 5}


def test_other_events_other_keys_and_information_pass():
    limit = RepeatLimit(clock=Clock())
    assert _say(limit, "down")
    assert _say(limit, "up")
    assert _say(limit, "down", key="d1")
    assert _say(limit, "started", "info")
    assert _say(limit, "started", "info")


@pytest.mark.parametrize("keys", [5000])
def test_the_memory_is_bounded(keys: int):
    limit = RepeatLimit(clock=Clock())
    for n in range(keys):
        _say(limit, "down", key=str(n))
    assert len(limit._last) <= 1024


def test_a_log_that_nobody_reads_any_more_ends_nothing():
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", buffering=1, encoding="utf-8") as stream:
        log = Unbreakable(stream)
        log.write("one\n")
        os.close(reader)
        for _ in range(3):
            log.write("two\n")
            log.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
