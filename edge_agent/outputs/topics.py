"""Names of the topics that the agent publishes (pure).

A stream's name may hold `/`. What no topic may hold (`+`, `#` and control characters) becomes `_`.
"""

from __future__ import annotations

_FORBIDDEN = dict.fromkeys([ord("+"), ord("#"), *range(32), 127], "_")
_MAX_BYTES = 1024


def verdict_topic(prefix: str, stream: str) -> str:
    """Where the verdicts of a stream go."""
    return _topic(prefix, "verdict/", stream)


def alarm_topic(prefix: str, stream: str) -> str:
    """Where the alarms of a stream go."""
    return _topic(prefix, "alarm/", stream)


def revision_topic(prefix: str, stream: str) -> str:
    """Where the revisions of a stream's verdicts go."""
    return _topic(prefix, "revision/", stream)


def status_topic(prefix: str) -> str:
    """Where `online` and `offline` stand, retained."""
    return prefix + "status"


def health_topic(prefix: str) -> str:
    """Where the agent's health stands, retained."""
    return prefix + "health"


def _topic(prefix: str, kind: str, stream: str) -> str:
    topic = prefix + kind + stream.translate(_FORBIDDEN)
    return topic.encode("utf-8", "replace")[:_MAX_BYTES].decode("utf-8", "ignore")
