"""A batch of messages of one topic, and a clock that stands still."""

import numpy as np

from edge_agent.clock import RecordedClock
from edge_agent.types import MessageBatch

__all__ = ["RecordedClock", "batch"]


def batch(topic: str, payloads: list[bytes]) -> MessageBatch:
    count = len(payloads)
    return MessageBatch(
        session="s",
        topics=[topic] * count,
        payloads=payloads,
        qos=[0] * count,
        mids=[0] * count,
        dup=[False] * count,
        retained=[False] * count,
        arrivals_s=np.full(count, 1e9),
        arrivals_ns=np.full(count, 0, dtype=np.int64),
    )
