"""How right the final verdicts were, against what is known of the recordings (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deploy.demo.observed import SeenVerdict

FLOW_WINDOW_ROWS = 12
ANOMALY = "anomaly"


@dataclass(frozen=True, slots=True)
class Found:
    """Events found, of how many; and how much of the windows that overlap no event was flagged."""

    found: int
    of: int
    normal_flagged_share: float
    windows: int


def events_found(
    verdicts: Iterable[SeenVerdict],
    *,
    times_s: Sequence[float],
    events: Sequence[tuple[int, int]],
    window_rows: int = FLOW_WINDOW_ROWS,
) -> Found:
    """An event counts as found when a window that overlaps it was flagged.

    A verdict's time is that of the last row of its window.
    """
    row_at = {round(time_s * 1e3): row for row, time_s in enumerate(times_s)}
    hit: set[tuple[int, int]] = set()
    normal = flagged = windows = 0
    for verdict in verdicts:
        last = row_at.get(verdict.time_ms)
        if last is None:
            continue
        windows += 1
        first = last - window_rows + 1
        overlapping = [event for event in events if first <= event[1] and last >= event[0]]
        alert = verdict.label == ANOMALY
        if alert:
            hit.update(overlapping)
        if not overlapping:
            normal += 1
            flagged += alert
    return Found(
        found=len(hit),
        of=len(events),
        normal_flagged_share=flagged / normal if normal else 0.0,
        windows=windows,
    )


def accuracy(verdicts: Iterable[SeenVerdict], activities: Mapping[str, str]) -> float:
    """The share of recordings whose verdict names the activity; one without a verdict is wrong.

    The stream's name ends with the recording's.
    """
    given = {verdict.stream.rsplit("/", 1)[-1]: verdict.label for verdict in verdicts}
    right = sum(given.get(name) == activity for name, activity in activities.items())
    return right / len(activities) if activities else 0.0
