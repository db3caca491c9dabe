"""How long to wait before the next attempt to connect. Pure: chance comes in as a number in 0..1."""

from __future__ import annotations

from typing import Final

CAP_S: Final = 20.0
_BASE_S: Final = 0.5


def reconnect_delay_s(attempt: int, *, jitter_s: float, chance: float) -> float:
    """The wait before an attempt: 0 is the first after a loss, within the jitter; then full jitter.

    A whole fleet that lost its server at once comes back spread out.
    """
    if attempt == 0:
        return chance * jitter_s
    return float(chance * min(CAP_S, _BASE_S * 2 ** min(attempt, 16)))
