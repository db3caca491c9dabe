"""The best local answer to a window (pure): a mandatory rule, the model, the baseline, or the last one."""

from __future__ import annotations

from dataclasses import dataclass

from contract.status import Reason, Tier

NORMAL = "normal"
ANOMALY = "anomaly"
BREACH = "breach"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What the local model says of one window."""

    label: str
    score: float
    confidence: float
    in_domain: bool


@dataclass(frozen=True, slots=True)
class Known:
    """The previous verdict of a stream."""

    label: str
    score: float
    confidence: float
    time_s: float


@dataclass(frozen=True, slots=True)
class LocalAnswer:
    """The answer in hand before anybody is asked. `mandatory` ones are not put to the hub."""

    tier: Tier
    label: str
    score: float
    confidence: float
    reasons: tuple[Reason, ...]
    in_domain: bool = True
    mandatory: bool = False
    stale_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class BaselineAnswer:
    """What the baseline says of one window."""

    label: str
    score: float
    confidence: float


def best_local(
    *,
    breach: bool,
    model: ModelAnswer | None,
    model_absent: Reason,
    baseline: BaselineAnswer | None,
    last: Known | None,
    time_s: float,
) -> LocalAnswer:
    """The answer of the highest tier that has one; there always is one.

    `model_absent` says why there is no model answer when `model` is None.
    """
    if breach:
        return LocalAnswer(Tier.RULE, BREACH, 1.0, 1.0, reasons=(Reason.BREACH,), mandatory=True)
    if model is not None:
        return LocalAnswer(
            Tier.MODEL,
            model.label,
            model.score,
            model.confidence,
            in_domain=model.in_domain,
            reasons=() if model.in_domain else (Reason.OUT_OF_DOMAIN,),
        )
    if baseline is not None:
        return LocalAnswer(
            Tier.BASELINE,
            baseline.label,
            baseline.score,
            baseline.confidence,
            reasons=(model_absent,),
        )
    absent = (model_absent, Reason.WARMING_UP)
    if last is not None and last.label != BREACH:  # a limit is kept or not: that is known anew
        stale_ms = max(0.0, (time_s - last.time_s) * 1e3)
        return LocalAnswer(
            Tier.LAST_KNOWN,
            last.label,
            last.score,
            0.0,
            stale_ms=stale_ms,
            reasons=(*absent, Reason.STALE),
        )
    return LocalAnswer(Tier.BASELINE, UNKNOWN, 0.0, 0.0, reasons=absent)
