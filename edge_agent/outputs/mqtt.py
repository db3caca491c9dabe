"""Says on MQTT what the agent decided; never blocks and never raises for a broker that is away.

Every message goes to every publisher. `status` is not here: the broker session says `online`, and
the broker itself says `offline` when the session vanishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from contract.messages import Revision
from edge_agent.outputs.payloads import (
    encode_alarm,
    encode_health,
    encode_revision,
    encode_verdict,
)
from edge_agent.outputs.topics import (
    alarm_topic,
    health_topic,
    revision_topic,
    verdict_topic,
)
from edge_agent.types import Alarm, JsonObject, Publisher, Verdict


class MqttOutput:
    """Order: as called. Duplicates: none of its own. Failure: what a publisher drops, it counts.

    With `verdicts="changes"` a verdict is published only when its stream's label or tier differs
    from the one before.
    """

    def __init__(
        self,
        publishers: Sequence[Publisher],
        *,
        prefix: str,
        verdict_qos: Literal[0, 1] = 0,
        verdicts: Literal["all", "changes"] = "all",
    ) -> None:
        self._publishers = tuple(publishers)
        self._prefix = prefix
        self._verdict_qos = verdict_qos
        self._every_verdict = verdicts == "all"
        self._last: dict[str, tuple[str, str]] = {}

    def verdict(self, verdict: Verdict) -> None:
        """Publishes one verdict."""
        if not self._every_verdict:
            answer = (verdict.label, verdict.tier)
            if self._last.get(verdict.stream) == answer:
                return
            self._last[verdict.stream] = answer
        topic = verdict_topic(self._prefix, verdict.stream)
        self._send(topic, encode_verdict(verdict), qos=self._verdict_qos)

    def alarm(self, alarm: Alarm) -> None:
        """Publishes one alarm at QoS 1."""
        self._send(alarm_topic(self._prefix, alarm.verdict.stream), encode_alarm(alarm), qos=1)

    def revision(self, revision: Revision, *, agrees: bool | None = None) -> None:
        """Publishes one revision at QoS 1: it comes once, also when the broker is away just then."""
        topic = revision_topic(self._prefix, revision.stream)
        self._send(topic, encode_revision(revision, agrees=agrees), qos=1)

    def health(self, report: JsonObject, *, time_s: float) -> None:
        """Publishes the agent's health, retained."""
        payload = encode_health(report, time_s=time_s)
        self._send(health_topic(self._prefix), payload, retain=True)

    def flush(self) -> None:
        """Writes what was said to the brokers' sockets, as far as they take it now."""
        for publisher in self._publishers:
            publisher.flush()

    def _send(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        for publisher in self._publishers:
            publisher.publish(topic, payload, qos=qos, retain=retain)
