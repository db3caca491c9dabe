"""A token bucket in bytes. Pure: time comes in as an argument."""

from __future__ import annotations


class TokenBucket:
    """Lets through `bytes_per_s` on average and one second's worth at once; 0 means no limit.

    A message larger than the bucket goes when the bucket is full, and leaves a debt.
    """

    def __init__(self, *, bytes_per_s: float, now_s: float) -> None:
        self._rate = bytes_per_s
        self._tokens = bytes_per_s
        self._at_s = now_s

    def free_at_s(self) -> float:
        """When the next message may go."""
        if self._rate <= 0 or self._tokens > 0:
            return self._at_s
        return self._at_s - self._tokens / self._rate + 1e-9

    def take(self, size: int, *, now_s: float) -> None:
        """Counts a message that goes now."""
        if self._rate <= 0:
            self._at_s = now_s
            return
        passed_s = max(now_s - self._at_s, 0.0)
        self._tokens = min(self._rate, self._tokens + passed_s * self._rate) - size
        self._at_s = now_s
