"""Due windows to local answers: rule, model and baseline side by side, the best one taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contract.status import Reason
from edge_agent.errors import ModelError
from edge_agent.inference.baseline import LIMIT, Baseline, baseline_confidence
from edge_agent.inference.scorer import Scorer, Scores
from edge_agent.readings.registry import Kind
from edge_agent.routing.ladder import ANOMALY, NORMAL, BaselineAnswer, ModelAnswer
from edge_agent.types import F32, F64, ReadingBatch, WindowBatch
from edge_agent.windows.rings import Rings, fill_holes, ranks

MOST_HOLES = 0.5
"""A window with more than half of a channel missing is not put to the model."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The answers to the m windows of one kind, by tier; None where a tier has none."""

    windows: WindowBatch
    breach: list[bool]
    model: list[ModelAnswer | None]
    model_absent: list[Reason]
    baseline: list[BaselineAnswer | None]
    features: F32 | None
    feature_rows: list[int]
    """Row of `features` for each window, -1 where there is none."""
    release: int


class KindJudge:
    """Windows, baseline, rules and model of the streams of one kind."""

    def __init__(self, kind: Kind, scorer: Scorer | None) -> None:
        """`scorer` is None where the kind has no model, or its model could not be loaded."""
        self.kind = kind
        self.scorer = scorer
        self.rings = Rings(
            kind=kind.index, window=kind.window, hop=kind.hop, channels=len(kind.channels)
        )
        self.baseline = Baseline(len(kind.channels))
        self._columns = (
            None if scorer is None else scorer.columns(kind.channels, stream=kind.settings.name)
        )
        channels = kind.settings.channels.values()
        self._alarm_low = _bounds([channel.alarm_below for channel in channels], -np.inf)
        self._alarm_high = _bounds([channel.alarm_above for channel in channels], np.inf)
        self._has_rules = bool(
            np.isfinite(self._alarm_low).any() or np.isfinite(self._alarm_high).any()
        )
        self.model_fault = ""
        """Why the model failed the last time it was asked, or ""."""

    def push(self, readings: ReadingBatch) -> list[tuple[WindowBatch, F64]]:
        """Takes readings in; returns windows that fell due and their last readings' deviation."""
        deviations = self.baseline.push(readings, ranks(readings.slots))
        return [(due, deviations[due.last]) for due in self.rings.push(readings)]

    def judge(self, windows: WindowBatch, deviations: F64) -> Judged:
        """Every tier's answer to the windows."""
        count = len(windows)
        scores, rows, absent = self._score(windows)
        model: list[ModelAnswer | None] = [None] * count
        if scores is not None and self.scorer is not None:
            model = self._model_answers(scores, rows, absent)
        return Judged(
            windows=windows,
            breach=self._breaches(windows),
            model=model,
            model_absent=absent,
            baseline=_baseline_answers(deviations),
            features=None if scores is None else scores.features,
            feature_rows=rows,
            release=0 if self.scorer is None else self.scorer.release,
        )

    def _score(self, windows: WindowBatch) -> tuple[Scores | None, list[int], list[Reason]]:
        count = len(windows)
        nothing = [-1] * count
        if self.scorer is None or self._columns is None:
            return None, nothing, [Reason.NO_MODEL] * count
        values, holes = fill_holes(windows.values[:, :, self._columns])
        whole = np.flatnonzero(holes <= MOST_HOLES)
        rows, absent = nothing, [Reason.MODEL_FAILED] * count
        if len(whole) < count:
            for window in np.flatnonzero(holes > MOST_HOLES).tolist():
                absent[window] = Reason.INCOMPLETE
            if not len(whole):
                return None, nothing, absent
            values, times_s = values[whole], windows.times_s[whole]
        else:
            times_s = windows.times_s
        try:
            scores = self.scorer.score(values, times_s)
        except ModelError as error:
            self.model_fault = str(error)
            return None, nothing, absent
        self.model_fault = ""
        rows = nothing.copy()
        for row, window in enumerate(whole.tolist()):
            rows[window] = row
        return scores, rows, absent

    def _model_answers(
        self, scores: Scores, rows: list[int], absent: list[Reason]
    ) -> list[ModelAnswer | None]:
        assert self.scorer is not None
        names = self.scorer.labels
        labels, values = scores.labels.tolist(), scores.scores.tolist()
        confidence, in_domain = scores.confidence.tolist(), scores.in_domain.tolist()
        usable = scores.usable.tolist()
        answers: list[ModelAnswer | None] = []
        for window, row in enumerate(rows):
            if row < 0 or not usable[row]:
                answers.append(None)
                if row >= 0:
                    absent[window] = Reason.MODEL_FAILED
                continue
            answers.append(
                ModelAnswer(names[labels[row]], values[row], confidence[row], in_domain[row])
            )
        return answers

    def _breaches(self, windows: WindowBatch) -> list[bool]:
        if not self._has_rules:
            return [False] * len(windows)
        outside = self._outside(windows.values[:, -self.kind.hop :])
        first = np.flatnonzero(windows.numbers == self.kind.window)
        if len(first):  # nobody has looked at the readings before a stream's first hop
            outside[first] |= self._outside(windows.values[first])
        return [bool(each) for each in outside]

    def _outside(self, values: F64) -> NDArray[np.bool_]:
        with np.errstate(invalid="ignore"):
            outside = (values < self._alarm_low) | (values > self._alarm_high)
        return np.asarray(outside.any(axis=(1, 2)))


def _bounds(values: list[float | None], absent: float) -> F64:
    return np.array([absent if value is None else value for value in values], dtype=np.float64)


def _baseline_answers(deviations: F64) -> list[BaselineAnswer | None]:
    confidence = baseline_confidence(np.nan_to_num(deviations)).tolist()
    return [
        None
        if deviation != deviation  # noqa: PLR0124 - NaN: too few readings
        else BaselineAnswer(
            ANOMALY if deviation > LIMIT else NORMAL, deviation, confidence[position]
        )
        for position, deviation in enumerate(deviations.tolist())
    ]
