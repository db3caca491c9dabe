"""A token bucket (pure): how many escalations may still go out; time comes in as an argument."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TokenBucket:
    """Fills at `rate_per_s` up to one second's worth (at least one token)."""

    rate_per_s: float
    tokens: float = 0.0
    filled_s: float | None = None

    def available(self, now_s: float) -> float:
        """The tokens at `now_s`, which never goes back."""
        most = max(1.0, self.rate_per_s) if self.rate_per_s > 0 else 0.0
        if self.filled_s is None:
            self.tokens = most
        else:
            self.tokens = min(most, self.tokens + (now_s - self.filled_s) * self.rate_per_s)
        self.filled_s = now_s
        return self.tokens

    def take(self, count: float = 1.0) -> None:
        """Uses tokens up; call `available` first."""
        self.tokens -= count
