"""The baseline tier: how unusual a reading is for its own stream, without any model.

Per channel it keeps a level and a spread, both exponentially weighted; a reading's deviation is
limited before it is learnt, so that one outlier does not widen the band for those after it. Causal,
label-free, and independent of how readings were cut into batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_agent.types import F64, I64, ReadingBatch

RATE = 0.02
"""Weight of a new reading: a memory of about fifty readings."""
CLIP = 3.0
"""Deviations, in spreads, beyond which a reading is not learnt from any further."""
MIN_READINGS = 30
"""Fewer readings are too few to judge."""
LIMIT = 6.0
"""Deviation, in spreads, above which a window is called an anomaly."""

SIGMA = 1.2533
"""sqrt(pi / 2): mean absolute deviation to standard deviation, for a normal spread."""
WIDE = 8
"""Fewer streams than this at a time are learnt one by one: that costs less than arrays so short."""


@dataclass(frozen=True, slots=True)
class BaselineState:
    """What the baseline remembers of one stream: level [c], spread [c], readings [c]."""

    level: F64
    spread: F64
    seen: F64


class Baseline:
    """Levels and spreads of all streams of one kind, in columns."""

    def __init__(self, channels: int) -> None:
        """Knows nothing yet."""
        self._level = np.zeros((0, channels))
        self._spread = np.zeros((0, channels))
        self._seen = np.zeros((0, channels))

    def push(self, batch: ReadingBatch, ranks: I64) -> F64:
        """Learns the readings [n] and returns each one's deviation [n], in spreads.

        The deviation is that of the strongest channel, judged before the reading is learnt; NaN
        where no channel has seen enough. `ranks` count a stream's readings within the batch.
        """
        result = np.empty(len(batch))
        self._grow(int(batch.slots.max(initial=-1)) + 1)
        steps = int(ranks.max(initial=-1)) + 1
        if len(batch) < WIDE * steps:
            return self._learn_one_by_one(batch)
        for rank in range(steps):
            rows = np.flatnonzero(ranks == rank)
            result[rows] = self._learn(batch.slots[rows], batch.values[rows])
        return result

    def _learn(self, slots: np.ndarray, values: F64) -> F64:
        level, spread, seen = self._level[slots], self._spread[slots], self._seen[slots]
        known = ~np.isnan(values)
        first = known & (seen == 0)
        level = np.where(first, values, level)
        deviation = np.where(known, values - level, 0.0)
        # A stream that never varied has no spread; the least one is a thousandth of its level.
        floor = np.maximum(spread, np.abs(level) * 1e-3 + 1e-12)
        score = np.abs(deviation) / floor
        # Early on the plain mean converges faster than the fixed rate.
        rate = np.where(known, np.maximum(RATE, 1.0 / (seen + 1.0)), 0.0)
        limited = np.where(
            seen < MIN_READINGS, deviation, np.clip(deviation, -CLIP * floor, CLIP * floor)
        )
        self._level[slots] = level + rate * limited
        self._spread[slots] = spread + rate * (SIGMA * np.abs(limited) - spread)
        self._seen[slots] = seen + known
        score = np.where(known & (seen >= MIN_READINGS), score, np.nan)
        judged = ~np.isnan(score).all(axis=1)
        result = np.full(len(slots), np.nan)
        result[judged] = np.nanmax(score[judged], axis=1)
        return result

    def _learn_one_by_one(self, batch: ReadingBatch) -> F64:
        """As `_learn`, bit for bit, for few streams with many readings each."""
        kept: dict[int, tuple[list[float], list[float], list[float]]] = {}
        result = np.full(len(batch), np.nan)
        rows = zip(batch.slots.tolist(), batch.values.tolist(), strict=True)
        for row, (slot, values) in enumerate(rows):
            state = kept.get(slot)
            if state is None:
                arrays = (self._level[slot], self._spread[slot], self._seen[slot])
                state = kept[slot] = (arrays[0].tolist(), arrays[1].tolist(), arrays[2].tolist())
            if (deviation := _learn_row(values, *state)) >= 0.0:
                result[row] = deviation
        for slot, (level, spread, seen) in kept.items():
            self._level[slot], self._spread[slot], self._seen[slot] = level, spread, seen
        return result

    def state(self, slot: int) -> BaselineState:
        """What is remembered of one stream."""
        self._grow(slot + 1)
        return BaselineState(
            self._level[slot].copy(), self._spread[slot].copy(), self._seen[slot].copy()
        )

    def restore(self, slot: int, state: BaselineState) -> None:
        """Sets a stream to what `state` returned."""
        self._grow(slot + 1)
        self._level[slot], self._spread[slot], self._seen[slot] = (
            state.level,
            state.spread,
            state.seen,
        )

    def _grow(self, slots: int) -> None:
        have = len(self._level)
        if slots <= have:
            return
        more = ((0, max(slots, have + have // 2, 4) - have), (0, 0))
        self._level = np.pad(self._level, more)
        self._spread = np.pad(self._spread, more)
        self._seen = np.pad(self._seen, more)


def _learn_row(
    values: list[float], levels: list[float], spreads: list[float], seens: list[float]
) -> float:
    """Learns one reading in place; its deviation, or -1 where no channel has seen enough."""
    strongest = -1.0
    for channel, value in enumerate(values):
        if value != value:  # noqa: PLR0124 - NaN
            continue
        spread, seen = spreads[channel], seens[channel]
        level = levels[channel] if seen else value
        deviation = value - level
        floor = max(spread, abs(level) * 1e-3 + 1e-12)
        rate = max(RATE, 1.0 / (seen + 1.0))
        if seen >= MIN_READINGS:
            strongest = max(strongest, abs(deviation) / floor)
            deviation = min(max(deviation, -CLIP * floor), CLIP * floor)
        levels[channel] = level + rate * deviation
        spreads[channel] = spread + rate * (SIGMA * abs(deviation) - spread)
        seens[channel] = seen + 1.0
    return strongest


def baseline_confidence(deviation: F64) -> F64:
    """How sure the baseline's label is, 0.5 at the limit towards 0.95: it is only a baseline."""
    return 0.5 + 0.45 * np.tanh(np.abs(np.asarray(deviation) - LIMIT) / LIMIT)
