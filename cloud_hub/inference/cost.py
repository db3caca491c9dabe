"""How long a batch takes: run(n) = b + a·n, fitted to what was measured. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

MEMORY: Final = 64
SAFETY: Final = 1.2
"""Predictions are this much longer than the fit: a promise that is a little late is a broken one."""
OUTLIER: Final = 8.0
"""A run this many times slower than predicted counts as this many times: one hiccup is no trend."""


class CostModel:
    """Predicts seconds for a batch of n rows from warm-up runs and the last 64 runs.

    The fit is least squares with both terms kept from going below zero. A model without samples predicts 0.
    """

    def __init__(self) -> None:
        self._seeds: list[tuple[int, float]] = []
        self._runs: deque[tuple[int, float]] = deque(maxlen=MEMORY)
        self._fixed_s = 0.0
        self._row_s = 0.0

    def seed(self, rows: int, seconds: float) -> None:
        """Notes a warm-up run; it is kept, so that a diet of one batch size cannot hide the slope."""
        self._seeds.append((rows, seconds))
        self._fit()

    def record(self, rows: int, seconds: float) -> None:
        """Notes a run."""
        if len(self._runs) >= 8:
            seconds = min(seconds, OUTLIER * max(self.predict(rows), 1e-6))
        self._runs.append((rows, seconds))
        self._fit()

    def predict(self, rows: int) -> float:
        """Seconds that a batch of `rows` will take, with the safety factor."""
        return SAFETY * (self._fixed_s + self._row_s * rows)

    def rows_within(self, seconds: float) -> int:
        """The most rows that are predicted to run within `seconds`; may be 0, or very many."""
        spare = seconds / SAFETY - self._fixed_s
        if spare < 0:
            return 0
        return int(spare / self._row_s) if self._row_s > 1e-12 else 1 << 30

    def _fit(self) -> None:
        samples = [*self._seeds, *self._runs]
        count = len(samples)
        mean_n = sum(n for n, _ in samples) / count
        mean_s = sum(s for _, s in samples) / count
        spread = sum((n - mean_n) ** 2 for n, _ in samples)
        if spread > 0:
            slope = sum((n - mean_n) * (s - mean_s) for n, s in samples) / spread
        else:
            slope = min(self._row_s, mean_s / mean_n)
        self._row_s = min(max(slope, 0.0), mean_s / mean_n)
        self._fixed_s = mean_s - self._row_s * mean_n
