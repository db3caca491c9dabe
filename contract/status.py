"""The closed lists both sides agree on: lanes, row classes, tiers, statuses and reasons.

A value that is not listed here does not exist on the wire, in a log or in a metric label. Adding
one is a change of the contract and is named in the changelog.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Lane(StrEnum):
    """One of the three ordered queues of the outbox, in the order in which they drain."""

    EVT = "evt"
    """Alarms, verdict events, revisions, update reports and gaps."""
    BULK = "bulk"
    """Escalations nobody waits for, and hard examples."""
    TEL = "tel"
    """Raw readings and rollups."""


class RowClass(StrEnum):
    """What a row of the outbox holds; the order of definition is the order of value."""

    ALARM = "alarm"
    VERDICT = "verdict"
    REVISION = "revision"
    GAP = "gap"
    ESCALATION = "escalation"
    ROLLUP = "rollup"
    RAW = "raw"

    @property
    def lane(self) -> Lane:
        """The lane in which rows of this class travel."""
        return _LANE_OF[self]


_LANE_OF = {
    RowClass.ALARM: Lane.EVT,
    RowClass.VERDICT: Lane.EVT,
    RowClass.REVISION: Lane.EVT,
    RowClass.GAP: Lane.EVT,
    RowClass.ESCALATION: Lane.BULK,
    RowClass.ROLLUP: Lane.TEL,
    RowClass.RAW: Lane.TEL,
}


class Tier(StrEnum):
    """Who gave an answer, best first."""

    HUB = "hub"
    MODEL = "model"
    BASELINE = "baseline"
    RULE = "rule"
    LAST_KNOWN = "last_known"


class Status(StrEnum):
    """How a request to the hub ended; the value of the `Edge-Status` header."""

    OK = "OK"
    BUSY = "BUSY"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"
    BAD_INPUT = "BAD_INPUT"
    NO_MODEL = "NO_MODEL"
    TOO_LARGE = "TOO_LARGE"
    INTERNAL = "INTERNAL"


class Priority(StrEnum):
    """How urgent a request is: somebody waits (`rt`), normal (`std`), whenever (`bulk`)."""

    RT = "rt"
    STD = "std"
    BULK = "bulk"


class Reason(StrEnum):
    """Why a verdict is what it is: the closed list behind a verdict's `reasons`, each with a sentence."""

    text: str

    def __new__(cls, value: str, text: str) -> Self:
        """A member is its value; `text` says what it means."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.text = text
        return member

    CONFIDENT = "confident", "The local answer was sure enough; nobody was asked."
    UNCERTAIN = "uncertain", "The local answer was below the confidence that the policy asks for."
    OUT_OF_DOMAIN = (
        "out_of_domain",
        "The window lies outside the range that the model was trained on.",
    )
    HUB_ANSWERED = "hub_answered", "The hub answered within the deadline."
    HUB_OFFLINE = (
        "hub_offline",
        "The hub would have been asked, but the link is down or it does not respond.",
    )
    HUB_TIMEOUT = (
        "hub_timeout",
        "The hub was asked and had not answered when the time for it was over.",
    )
    HUB_BUSY = "hub_busy", "The hub refused because it could not have answered in time."
    HUB_REFUSED = (
        "hub_refused",
        "The hub answered with an error: bad input, no such model, or an internal failure.",
    )
    HUB_DISABLED = "hub_disabled", "The configuration does not let this stream ask the hub."
    NO_TIME = "no_time", "Too little of the deadline was left to ask the hub."
    RATE_LIMITED = "rate_limited", "The escalation budget of the device was used up."
    NO_MODEL = (
        "no_model",
        "The stream has no model, or it could not be loaded; a lower tier answered.",
    )
    MODEL_FAILED = (
        "model_failed",
        "The model raised or returned a value that is not finite; a lower tier answered.",
    )
    INCOMPLETE = (
        "incomplete",
        "Values were missing in the window; short holes were held, too many rule the model out.",
    )
    WARMING_UP = "warming_up", "The baseline has seen too few readings to judge."
    BREACH = "breach", "A declared limit was exceeded (tier `rule`)."
    STALE = "stale", "The answer is the previous verdict, repeated (tier `last_known`)."
    RESTARTED = (
        "restarted",
        "The agent restarted while the hub was being asked; the local answer stands.",
    )
    NOT_KEPT = (
        "not_kept",
        "The outbox cannot be opened: the verdict is not stored, and may be given again under another id.",
    )
    BULK_ESCALATED = "bulk_escalated", "The window was queued for the hub; a revision may follow."


class Fault(StrEnum):
    """Why a message, a reading or one channel of it was not used, or was used with a flag."""

    TOO_LARGE = "too_large"
    BAD_TEXT = "bad_text"
    BAD_JSON = "bad_json"
    TOO_DEEP = "too_deep"
    WRONG_TYPE = "wrong_type"
    NO_VALUES = "no_values"
    NO_STREAM = "no_stream"
    TOO_MANY_STREAMS = "too_many_streams"
    OUT_OF_RANGE = "out_of_range"
    NOT_A_NUMBER = "not_a_number"
    MISSING = "missing"
    TIME_UNTRUSTED = "time_untrusted"
    BAD_TIME = "bad_time"
    RETAINED = "retained"


class Health(StrEnum):
    """The state of the link to the hub."""

    ONLINE = "online"
    DEGRADED = "degraded"
    OFFLINE = "offline"
