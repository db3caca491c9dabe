"""mqtt.md: what the agent publishes, with the examples that its tests hold true."""

from __future__ import annotations

from typing import Any

import msgspec

from contract.status import Health
from docs.generator.fields import struct_rows
from docs.generator.markdown import block, code, document, table
from docs.generator.samples import OUTBOX
from edge_agent.agent.reporting import Parts, Reporter
from edge_agent.clock import SystemClock
from edge_agent.inference.load import Loaded
from edge_agent.observe.metrics import Counters
from edge_agent.outputs import examples, payloads, topics
from edge_agent.pipeline.core import Pipeline
from edge_agent.settings import ChannelSettings, DeviceSettings, Settings, StreamSettings
from edge_agent.types import LinkState
from edge_agent.version import VERSION

_DEVICE = "pump-station"
_STREAM = "STREAM"

_INTRODUCTION = """
The agent publishes to every broker that it reads from. The prefix is `skerry/<device name>/`, or `output.prefix`.
Payloads are JSON with a `version`; it changes only when a reader of the old form would be misled. Readers ignore
fields that they do not know. Times are ISO 8601 in UTC; a number that is not finite, and a time that no calendar has, is
`null`.
"""
_AFTER = """
`STREAM` is the stream's name and may hold `/`. Characters that a topic cannot hold (`+`, `#`, control characters) become `_`. A
subscriber to `skerry/+/verdict/#` gets every verdict of every device.

While a broker is away, QoS 0 messages to it are dropped and counted; up to 1,000 QoS 1 messages wait.
"""
_FIELDS = {
    "id": "Names this verdict; the same window decided again after a kill or a redelivery has the same id.",
    "stream": "The stream.",
    "time": "The time of the window's last reading.",
    "label": "One of the model's labels; `normal` or `anomaly` of the baseline; `breach` of a rule; `unknown` while nothing can be said.",
    "score": "What the label was decided on: an anomaly model's or the baseline's deviation, or a classifier's probability.",
    "confidence": "How sure the answer is, 0 to 1; calibrated where a model answered.",
    "tier": "Who answered.",
    "model": "The model family of the stream; empty where it has none.",
    "release": "The release that answered or would have; 0 where there is none.",
    "stale_ms": "How old the answer is that tier `last_known` repeats; else 0.",
    "reasons": "Why it is what it is, in the order in which it was found out.",
    "stages_ms": "Where the time went, by stage; empty in a replay.",
    "alarm": "`episode` names the episode (the id of the verdict that opened it), `raised` is that verdict's time.",
    "verdict": "The id of the verdict that is revised.",
    "agrees": "Whether the new label is the old one; `null` where the verdict is no longer remembered.",
    "version": "The version of this form.",
}


def page() -> str:
    """The page."""
    prefix = f"skerry/{_DEVICE}/"
    rows = [
        (code(topics.verdict_topic(prefix, _STREAM)), "`output.verdict_qos` (0)", "no", "every final verdict (`output.verdicts`)"),
        (code(topics.alarm_topic(prefix, _STREAM)), "1", "no", "a verdict that must be acted upon; one per episode"),
        (code(topics.revision_topic(prefix, _STREAM)), "`output.verdict_qos` (0)", "no", "a later, better answer to a verdict"),
        (code(topics.status_topic(prefix)), "1", "yes", " or ".join(map(code, examples.STATUS_TEXTS)) + "; the broker says `offline` when the agent vanishes"),
        (code(topics.health_topic(prefix)), "0", "yes", "the agent at a glance, every 30 s"),
    ]  # fmt: skip
    return document(
        "MQTT: what the agent publishes",
        _INTRODUCTION,
        table(("topic", "QoS", "retained", "payload"), rows),
        _AFTER,
        "Labels, tiers and reasons: [reasons and faults](reasons-and-faults.md).",
        *_payload("Verdict", examples.VERDICT_JSON, payloads.VerdictPayload),
        *_payload("Alarm", examples.ALARM_JSON, payloads.AlarmPayload),
        *_payload("Revision", examples.REVISION_JSON, payloads.RevisionPayload),
        "## Status",
        "Plain text, not JSON.",
        "## Health",
        _pretty(health_json()),
        "`verdicts` are by tier, `faults` by fault; zeros are left out.",
    )


def health_json() -> bytes:
    """What a device with one stream would publish right after its start."""
    clock = SystemClock()
    settings = Settings(
        device=DeviceSettings(name=_DEVICE),
        stream=[
            StreamSettings(name="flow", topic="pump/flow", channels={"flow": ChannelSettings()})
        ],
    )
    unused: dict[str, Any] = dict.fromkeys(Parts.__dataclass_fields__)
    parts = unused | {
        "settings": settings,
        "version": VERSION,
        "clock": clock,
        "pipeline": Pipeline(settings, {}, clock=clock, epoch="docs"),
        "counters": Counters(),
        "outbox": lambda: OUTBOX,
        "brokers": list,
        "loaded": Loaded({}, {}),
        "replaced": (),
        "link": lambda: LinkState(Health.OFFLINE, rtt_ms=0.0, since_s=0.0),
    }
    report = Reporter(Parts(**parts)).health()
    return payloads.encode_health(report, time_s=examples.HEALTH_TIME_S)


def _payload(title: str, example: str, struct: type[msgspec.Struct]) -> list[str]:
    base = {name for name, _, _ in struct_rows(payloads.VerdictPayload)}
    shown = [
        (code(name), kind, _FIELDS[name])
        for name, kind, _ in struct_rows(struct)
        if struct is not payloads.AlarmPayload or name not in base
    ]
    also = "All of the verdict, and:" if struct is payloads.AlarmPayload else ""
    return [
        f"## {title}",
        _pretty(example.encode()),
        also,
        table(("field", "type", "meaning"), shown),
    ]


def _pretty(example: bytes) -> str:
    return block(msgspec.json.format(example, indent=2).decode(), "json")
