"""What a verdict means after the one before it (pure): a new label, an alarm, or nothing new."""

from __future__ import annotations

from dataclasses import dataclass

from edge_agent.routing.ladder import UNKNOWN, Known


@dataclass(slots=True)
class StreamHistory:
    """What must be remembered of a stream's verdicts; `quiet` windows since the last alarm label."""

    label: str = ""
    score: float = 0.0
    confidence: float = 0.0
    time_s: float = 0.0
    episode: str = ""
    raised_s: float = 0.0
    quiet: int = 0
    number: int = 0

    def known(self) -> Known | None:
        """The previous verdict, or None before the first that said anything."""
        if not self.label or self.label == UNKNOWN:
            return None
        return Known(self.label, self.score, self.confidence, self.time_s)


@dataclass(frozen=True, slots=True)
class Meaning:
    """Whether the label changed, and whether this verdict opens an alarm's episode."""

    changed: bool
    raises: bool


def settle(
    history: StreamHistory,
    *,
    verdict: str,
    label: str,
    score: float,
    confidence: float,
    time_s: float,
    number: int,
    alarm_labels: tuple[str, ...],
    rearm_windows: int,
) -> Meaning:
    """Takes a final verdict into the history: one alarm an episode, re-armed after quiet windows.

    A verdict that comes out of order (an answer that the hub gave later than a newer window's) may
    raise an alarm but does not overwrite the newer label. The order is that of the windows' running
    numbers: a stream's times may jump back.
    """
    changed = bool(history.label) and label != history.label
    raises = False
    if label in alarm_labels:
        raises = not history.episode
        history.quiet = 0
        if raises:
            history.episode, history.raised_s = verdict, time_s
    elif history.episode:
        history.quiet += 1
        if history.quiet >= rearm_windows:
            history.episode = ""
    if number >= history.number or not history.label:
        history.label, history.score, history.number = label, score, number
        history.confidence, history.time_s = confidence, time_s
    return Meaning(changed=changed, raises=raises)
