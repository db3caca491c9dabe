"""reasons-and-faults.md: every closed list of the contract, with a sentence for each word."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from contract.status import Fault, Health, Lane, Priority, Reason, RowClass, Status, Tier
from docs.generator.markdown import code, document, table
from edge_agent.link.health import BADS_FOR_OFFLINE, GOODS_FOR_ONLINE

_Word = TypeVar("_Word", bound=StrEnum)
_TIERS = {
    Tier.HUB: "The hub, within the deadline.",
    Tier.MODEL: "The stream's model on the device.",
    Tier.BASELINE: "Statistics of the stream itself; no model needed.",
    Tier.RULE: "A limit that the configuration declares (`alarm_below`, `alarm_above`); it overrules every model.",
    Tier.LAST_KNOWN: "The previous verdict of the stream, repeated and marked stale.",
}
_FAULTS = {
    Fault.TOO_LARGE: ("message", "The payload is over `limits.max_payload_bytes`, or its topic over 1,024 characters; it was not read."),
    Fault.BAD_TEXT: ("message", "The topic or the payload is not UTF-8."),
    Fault.BAD_JSON: ("message", "The payload is not JSON."),
    Fault.TOO_DEEP: ("message", "The payload is nested deeper than `limits.max_depth`."),
    Fault.WRONG_TYPE: ("message or channel", "Something else stands where an object or a number is due."),
    Fault.NO_VALUES: ("message", "None of the declared channels has a value."),
    Fault.NO_STREAM: ("message", "No `[[stream]]` claims the topic."),
    Fault.TOO_MANY_STREAMS: ("message", "The topic would open a stream beyond `limits.max_streams`."),
    Fault.OUT_OF_RANGE: ("channel", "The value is outside of the channel's `min` and `max`. The other channels are used."),
    Fault.NOT_A_NUMBER: ("channel", "NaN, infinite, or larger than any measured value. The other channels are used."),
    Fault.MISSING: ("channel", "Absent, null, or a word for \"no value\". The other channels are used."),
    Fault.TIME_UNTRUSTED: ("flag", "The reading's time is before the build date of the software or more than 5 minutes ahead of its arrival: it is used with its arrival time, and flagged."),
    Fault.BAD_TIME: ("flag", "What stands where the time is due is no time: the arrival time is used."),
    Fault.RETAINED: ("message", "An old value that the broker kept; it is not a reading of now."),
}  # fmt: skip
_STATUSES = {
    Status.OK: "Answered.",
    Status.BUSY: "Not taken: it could not be done in time, a queue is full, or the device asks more often than it may. `Edge-Retry-After-Ms` says when to come again.",
    Status.EXPIRED: "Its time was over before it could be answered.",
    Status.CANCELLED: "The device took it back.",
    Status.BAD_INPUT: "It cannot be read, or its features are not the model's; the answer's `error` says how.",
    Status.NO_MODEL: "No such model is served.",
    Status.TOO_LARGE: "More rows than fit into one batch.",
    Status.INTERNAL: "The model failed, or the hub's database did.",
}  # fmt: skip
_PRIORITIES = {
    Priority.RT: "Somebody waits.",
    Priority.STD: "Normal.",
    Priority.BULK: "Whenever there is room: windows that were queued while the hub was away.",
}
_HEALTH = {
    Health.ONLINE: f"The hub gave {GOODS_FOR_ONLINE} good answers in a row.",
    Health.DEGRADED: "Connected and in doubt: just come back, a failed probe, late or busy answers. It is still asked.",
    Health.OFFLINE: f"Not connected, or {BADS_FOR_OFFLINE} probes failed, or {BADS_FOR_OFFLINE} requests in a row found nobody. It is not asked.",
}  # fmt: skip
_LANES = {
    Lane.EVT: "Alarms, verdict events, revisions, gaps.",
    Lane.BULK: "Escalations that nobody waits for.",
    Lane.TEL: "Raw readings and rollups.",
}
_ROWS = {
    RowClass.ALARM: "A verdict that opens an episode.",
    RowClass.VERDICT: "A verdict whose label changed, or that the hub was asked about.",
    RowClass.REVISION: "An answer of the hub that came after the verdict.",
    RowClass.GAP: "What was shed, set aside or lost.",
    RowClass.ESCALATION: "A window for the hub, with its features.",
    RowClass.ROLLUP: "Counts of one stream over an interval: verdicts by tier and label, faults, latencies.",
    RowClass.RAW: "A committed batch of readings.",
}


def page() -> str:
    """The page; raises KeyError for a word without a sentence."""
    return document(
        "Reasons, faults and other closed lists",
        "A value that is not listed here does not exist on the wire, in a log or in a metric label.",
        "## Tiers",
        "Who gave an answer (`tier` of a verdict), best first.",
        _list(Tier, _TIERS),
        "## Reasons",
        "Why a verdict is what it is (`reasons`). `edge-agent explain` prints these sentences.",
        table(("reason", "meaning"), [(code(each), each.text) for each in Reason]),
        "## Faults",
        "Why a message, a reading or one channel of it was not used, or was used with a flag. Each is counted; the last five "
        "samples of each are shown by `edge-agent status` (all of them with `--json`, under `quarantine`). A message that was not used is acknowledged all "
        "the same: the broker could only send it again.",
        table(("fault", "concerns", "meaning"), [(code(each), *_FAULTS[each]) for each in Fault]),
        "## Statuses",
        "How a request to the hub ended (header `Edge-Status`).",
        _list(Status, _STATUSES),
        "## Priorities",
        _list(Priority, _PRIORITIES),
        "## Health of the link",
        "`edge-agent status`, line `hub`.",
        _list(Health, _HEALTH),
        "## Lanes and classes of rows",
        "The outbox drains the lanes in this order.",
        _list(Lane, _LANES),
        "Most valuable first; when the outbox is full, the last are given up first, gap records never.",
        table(
            ("class", "lane", "meaning"),
            [(code(each), code(each.lane), _ROWS[each]) for each in RowClass],
        ),
    )


def _list(kind: type[_Word], sentences: Mapping[_Word, str]) -> str:
    return table(("value", "meaning"), [(code(each), sentences[each]) for each in kind])
