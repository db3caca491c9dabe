"""rehearse/payloads: readings made from the configuration alone."""

import json
from typing import Any

import pytest

from edge_agent.decode.profiles import make_decoder
from edge_agent.decode.rows import Rows
from edge_agent.readings.topics import match_levels
from edge_agent.rehearse.payloads import NotMade, Readings
from edge_agent.settings import Settings


def _settings(*streams: dict[str, Any]) -> Settings:
    return Settings(device={"name": "dev"}, stream=list(streams))


def _stream(name="s", topic="a/b", channels=None, **more) -> dict[str, Any]:
    return {"name": name, "topic": topic, "channels": channels or {"x": {}}, **more}


def _decoded(settings, message, table=0):
    rows = Rows()
    assert make_decoder(settings.stream[table], settings.limits).decode(message.payload, rows) == 1
    return rows


def test_wildcards_are_filled_in_and_values_lie_within_their_ranges():
    channels = {
        "t": {"path": "a.b[2].c", "min": -5, "max": 5},
        "u": {"path": '"k.x".v', "min": 100, "alarm_above": 101},
        "w": {"max": -3},
    }
    settings = _settings(_stream(name="p/{1}", topic="site/+/pump/#", channels=channels))
    readings = Readings(settings)
    assert len(readings.topics) == 2
    for message in readings.take(500):
        assert match_levels("site/+/pump/#", message.topic) is not None
        rows = _decoded(settings, message)
        t, u, w = rows.values
        assert -5 <= t <= 5
        assert 100 <= u <= 101
        assert w <= -3
        assert not rows.faults
        assert message.keys == ((f"p/{message.topic.split('/')[1]}", t),)
        assert rows.times[0] > 1.7e9


def test_no_two_readings_are_alike():
    readings = Readings(_settings(_stream(channels={"x": {"min": 0, "max": 1}})))
    keys = [key for message in readings.take(20_000) for key in message.keys]
    assert len(set(keys)) == 20_000


def test_a_time_path_is_served_and_a_usual_key_that_is_a_channel_is_left_alone():
    settings = _settings(
        _stream(name="one", topic="one", time_path="meta.when"),
        _stream(name="two", topic="two", channels={"time": {"min": 0, "max": 1}}),
    )
    one, two = Readings(settings).take(2)
    assert json.loads(one.payload)["meta"]["when"] > 1.7e9
    assert 0 <= json.loads(two.payload)["time"] <= 1
    assert json.loads(two.payload)["timestamp"] > 1.7e9


def test_a_payload_that_is_a_list_has_no_time():
    settings = _settings(_stream(channels={"x": {"path": "[1]"}, "y": {"path": "[0].v"}}))
    message = next(Readings(settings).take(1))
    rows = _decoded(settings, message)
    assert rows.times[0] != rows.times[0]
    assert rows.values[0] == message.keys[0][1]


def test_a_topic_that_two_tables_read_counts_for_both():
    settings = _settings(
        _stream(name="all", topic="a/+", channels={"x": {"min": 0, "max": 10}}),
        _stream(name="one", topic="a/rehearsal", channels={"x": {"min": 5, "max": 20}, "y": {}}),
    )
    message = next(Readings(settings).take(1))
    assert [stream for stream, _ in message.keys] == ["all/rehearsal", "one"]
    assert 5 <= message.keys[0][1] <= 10
    assert _decoded(settings, message, table=1).values[0] == message.keys[1][1]


@pytest.mark.parametrize(
    ("streams", "why"),
    [
        ([_stream(channels={"x": {"path": "a"}, "y": {"path": "a.b"}})], "object"),
        ([_stream(channels={"x": {"path": "v[999999]"}})], "very long"),
        (
            [_stream(name="p", topic="t"), _stream(name="q", topic="t", channels={"z": {}})],
            "tell their readings apart",
        ),
        (
            [
                _stream(name="p", topic="t", channels={"x": {"max": 1}}),
                _stream(name="q", topic="t", channels={"x": {"min": 2}}),
            ],
            "no value",
        ),
    ],
)
def test_a_stream_that_no_reading_can_be_made_for_is_named_with_the_reason(streams, why):
    with pytest.raises(NotMade) as failure:
        Readings(_settings(*streams))
    assert why in str(failure.value)
    assert repr(streams[0]["name"]) in str(failure.value)


def test_one_stream_that_cannot_be_made_does_not_keep_the_others_from_it():
    readings = Readings(
        _settings(_stream(channels={"x": {"path": "v[999999]"}}), _stream(name="b", topic="b"))
    )
    assert readings.topics == ["b"]
    assert "'s'" in readings.left_out[0]
