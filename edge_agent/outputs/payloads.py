"""The JSON that leaves on MQTT: one struct a topic, each with its version.

Times are ISO 8601 in UTC. A number that is not finite, and a time that no calendar has, is null.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from contract.messages import Revision
from contract.status import Reason, Tier
from edge_agent.types import Alarm, JsonObject, Verdict

VERSION = 1


class VerdictPayload(msgspec.Struct, frozen=True, kw_only=True):
    """`verdict/<stream>`: the answer to one window."""

    version: int = VERSION
    id: str
    stream: str
    time: str | None
    label: str
    score: float
    confidence: float
    tier: Tier
    model: str
    release: int
    stale_ms: float
    reasons: tuple[Reason, ...]
    stages_ms: dict[str, float]


class AlarmEpisode(msgspec.Struct, frozen=True, kw_only=True):
    """Which episode of the stream an alarm belongs to, and when it was raised."""

    episode: str
    raised: str | None


class AlarmPayload(VerdictPayload, frozen=True, kw_only=True):
    """`alarm/<stream>`: the verdict that raised the alarm, and its episode."""

    alarm: AlarmEpisode


class RevisionPayload(msgspec.Struct, frozen=True, kw_only=True):
    """`revision/<stream>`: a later, better answer to the verdict with this id."""

    version: int = VERSION
    verdict: str
    stream: str
    time: str | None
    label: str
    score: float
    confidence: float
    tier: Tier
    model: str
    release: int
    agrees: bool | None
    """Whether it says the same as the verdict; null where the verdict is no longer known."""


_ENCODER = msgspec.json.Encoder()


def encode_verdict(verdict: Verdict) -> bytes:
    """The payload of `verdict/<stream>`."""
    return _ENCODER.encode(VerdictPayload(**_fields(verdict)))


def encode_alarm(alarm: Alarm) -> bytes:
    """The payload of `alarm/<stream>`."""
    episode = AlarmEpisode(episode=alarm.episode, raised=iso_time(alarm.raised_s))
    return _ENCODER.encode(AlarmPayload(**_fields(alarm.verdict), alarm=episode))


def encode_revision(revision: Revision, *, agrees: bool | None) -> bytes:
    """The payload of `revision/<stream>`."""
    return _ENCODER.encode(
        RevisionPayload(
            verdict=revision.verdict,
            stream=revision.stream,
            time=iso_time(revision.time_s),
            label=revision.label,
            score=revision.score,
            confidence=revision.confidence,
            tier=Tier.HUB,
            model=revision.model,
            release=revision.release,
            agrees=agrees,
        )
    )


def encode_health(report: JsonObject, *, time_s: float) -> bytes:
    """The payload of `health`: what the caller reports, with version and time in front."""
    return _ENCODER.encode({"version": VERSION, "time": iso_time(time_s), **report})


def iso_time(time_s: float) -> str | None:
    """UTC seconds since 1970 as 2026-11-30T08:15:02.311Z; None where no calendar has that time."""
    try:
        moment = datetime.fromtimestamp(time_s, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds")[:-6] + "Z"


def _fields(verdict: Verdict) -> JsonObject:
    return {
        "id": verdict.id,
        "stream": verdict.stream,
        "time": iso_time(verdict.time_s),
        "label": verdict.label,
        "score": verdict.score,
        "confidence": verdict.confidence,
        "tier": verdict.tier,
        "model": verdict.model,
        "release": verdict.release,
        "stale_ms": verdict.stale_ms,
        "reasons": verdict.reasons,
        "stages_ms": {name: round(value, 3) for name, value in verdict.stages_ms.items()},
    }
