"""How long to wait before the next attempt (pure)."""

from __future__ import annotations


def full_jitter_s(
    attempt: int, *, chance: float, base_s: float = 0.5, cap_s: float = 20.0
) -> float:
    """Between 0 and min(cap, base × 2^attempt) seconds, at `chance` in [0, 1) of the way.

    Source: "Exponential Backoff and Jitter", AWS Architecture Blog, 2015 ("full jitter").
    """
    return chance * min(cap_s, base_s * 2.0 ** min(attempt, 30))
