"""Who is let in: rates of devices, and the refusals that say when to come again. Pure."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from contract.status import Status

MAX_DEVICES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an ask is not taken, and when it may be worth asking again."""

    status: Status
    reason: str
    retry_after_s: float = 0.0


class RateLimits:
    """A token bucket per device, in rows; a device not heard of has a full one.

    Of more than 65,536 devices the one that asked longest ago is forgotten, which only gives it tokens.
    """

    def __init__(self, *, rows_per_s: float, burst_rows: float) -> None:
        self._rows_per_s = rows_per_s
        self._burst_rows = burst_rows
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, device: str, rows: int, *, now_s: float) -> Refusal | None:
        """Takes `rows` tokens, or says how long until there are enough."""
        tokens, then_s = self._buckets.get(device, (self._burst_rows, now_s))
        tokens = min(self._burst_rows, tokens + (now_s - then_s) * self._rows_per_s)
        wanted = min(float(rows), self._burst_rows)
        enough = tokens >= wanted
        self._buckets[device] = (tokens - wanted if enough else tokens, now_s)
        self._buckets.move_to_end(device)
        if len(self._buckets) > MAX_DEVICES:
            self._buckets.popitem(last=False)
        if enough:
            return None
        wait_s = (wanted - tokens) / self._rows_per_s
        return Refusal(Status.BUSY, "the device asks more often than it may", wait_s)
