import json
import math
from dataclasses import replace

import pytest

from edge_agent.outputs import examples
from edge_agent.outputs.mqtt import MqttOutput
from edge_agent.outputs.payloads import (
    encode_alarm,
    encode_health,
    encode_revision,
    encode_verdict,
    iso_time,
)
from edge_agent.outputs.topics import alarm_topic, status_topic, verdict_topic


class Published:
    """An honest publisher in memory."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes, int, bool]] = []
        self.flushed = 0

    def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        self.messages.append((topic, payload, qos, retain))

    def flush(self) -> None:
        self.flushed = len(self.messages)


def test_the_examples_of_the_reference_are_what_is_sent():
    assert encode_verdict(examples.VERDICT).decode() == examples.VERDICT_JSON
    assert encode_alarm(examples.ALARM).decode() == examples.ALARM_JSON
    assert encode_revision(examples.REVISION, agrees=False).decode() == examples.REVISION_JSON
    health = encode_health(examples.HEALTH, time_s=examples.HEALTH_TIME_S)
    assert health.decode() == examples.HEALTH_JSON


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_null(value: float):
    verdict = replace(
        examples.VERDICT, score=value, confidence=value, stages_ms={"hub": value}, time_s=value
    )
    sent = json.loads(encode_verdict(verdict), parse_constant=pytest.fail)
    assert (sent["score"], sent["confidence"], sent["time"]) == (None, None, None)
    assert sent["stages_ms"] == {"hub": None}


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (4070908800.5, "2099-01-01T00:00:00.500Z"),
        (1e15, None),
        (math.nan, None),
    ],
)
def test_times_are_iso_8601_in_utc(time_s: float, text: str | None):
    assert iso_time(time_s) == text


@pytest.mark.parametrize(
    ("stream", "topic"),
    [
        ("pump", "p/verdict/pump"),
        ("hall/door 2", "p/verdict/hall/door 2"),
        ("a+b#c\0d\n", "p/verdict/a_b_c_d_"),
        ("wärme", "p/verdict/wärme"),
    ],
)
def test_a_stream_name_becomes_a_valid_topic(stream: str, topic: str):
    assert verdict_topic("p/", stream) == topic


def test_a_long_name_is_cut_between_characters():
    topic = alarm_topic("p/", "ü" * 2000)
    assert len(topic.encode()) <= 1024
    assert topic.startswith("p/alarm/üü")


def test_topics_and_qos_of_every_kind():
    first, second = Published(), Published()
    output = MqttOutput([first, second], prefix="skerry/dev/")
    output.verdict(examples.VERDICT)
    output.alarm(examples.ALARM)
    output.revision(examples.REVISION, agrees=True)
    output.health({"ready": True}, time_s=0.0)
    assert [(topic, qos, retain) for topic, _, qos, retain in first.messages] == [
        ("skerry/dev/verdict/pump/1", 0, False),
        ("skerry/dev/alarm/pump/1", 1, False),
        ("skerry/dev/revision/pump/1", 1, False),
        ("skerry/dev/health", 0, True),
    ]
    assert second.messages == first.messages
    assert status_topic("skerry/dev/") == "skerry/dev/status"


def test_only_changes_are_published_when_asked_so():
    sent = Published()
    output = MqttOutput([sent], prefix="p/", verdicts="changes")
    normal = replace(examples.VERDICT, label="normal")
    for verdict in (normal, normal, examples.VERDICT, replace(normal, stream="other"), normal):
        output.verdict(verdict)
    assert [json.loads(payload)["label"] for _, payload, _, _ in sent.messages] == [
        "normal",
        "anomaly",
        "normal",
        "normal",
    ]


def test_flushing_the_output_flushes_every_publisher():
    first, second = Published(), Published()
    output = MqttOutput([first, second], prefix="site/")
    output.verdict(examples.VERDICT)
    output.flush()
    assert (first.flushed, second.flushed) == (1, 1)
