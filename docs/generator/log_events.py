"""log-events.md: every event that the code writes, with its level and keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import cloud_hub
import edge_agent
from docs.generator.markdown import code, document, table
from docs.generator.source import log_calls, member_sentences
from edge_agent.observe import events, logs

_INTRODUCTION = """
Both programs write one JSON object a line to standard error: `event`, `level`, `timestamp` (UTC), and the keys below. Names
are fixed; sentences belong to this page, not to the log. A key may be absent where it does not apply. Secrets are masked,
also within URLs.
"""
_HUB_SENTENCES = {
    "hub_started": "The hub serves; carries its roles and models.",
    "hub_stopping": "A signal asked the hub to end; it drains.",
    "hub_stopped": "The hub ended in order.",
    "state_failed": "A device's state request could not be answered; it is told so, the others are not harmed.",
    "model_ready": "A model is loaded, proved on its golden vectors, and measured.",
    "model_failed": "A model failed on one row, which was answered with INTERNAL.",
    "drain_incomplete": "A task did not end within its limit and was cancelled.",
    "outcome_undeliverable": "An answer could not be handed to its caller.",
    "bus_ready": "Connected to NATS; streams, consumers and subscriptions exist.",
    "bus_connect_failed": "NATS could not be reached or prepared; it is tried again for ever.",
    "bus_lost": "The connection to NATS ended; it is made again.",
    "bus_renewed": "The server forgot a stream or its consumer; the connection is prepared anew, which makes them.",
    "bus_error": "The NATS client reported an error.",
    "bus_probe_failed": "The server did not answer a probe; after a second one the connection is made anew.",
    "bus_close_failed": "A connection could not be closed in order.",
    "bus_sync_unchecked": "Nobody checked whether the server syncs its writes: the configuration says not to.",
    "bus_sync_unknown": "The server's monitoring does not answer; it had said before that it syncs.",
    "bus_request_dropped": "A request was not answered: its subject or its reply subject is not the device's own.",
    "ingest_dead_letter": "A message or row could not be stored and was set aside; `reason` says why.",
    "ingest_store_failed": "The database did not take a batch; it is tried again, and nothing is acknowledged meanwhile.",
    "escalation_store_failed": "The database failed while queued windows were answered; they wait.",
    "presence_store_failed": "Reported states could not be written; they are written later.",
    "repair_store_failed": "Times could not be repaired because the database failed; they are repaired later.",
    "times_repaired": "Times of a device's boot were corrected, after a trusted stamp told its clock; `shift_s` is the largest correction.",
    "greet_store_failed": "The known devices could not be read, so that none was nudged.",
    "rows_forgone": "A device no longer has rows that never came, and nothing of its lane is on its way: they are written down as a gap.",
    "state_unreadable": "A device's state request cannot be read.",
    "state_store_failed": "A state request could not be answered because the database failed.",
}


def page() -> str:
    """The page; raises LookupError for an event without a sentence."""
    members = member_sentences(events, "Event")
    declared = {events.Event[name].value: text for name, text in members.items()}
    names = {name: events.Event[name].value for name in members}
    fields = ", ".join(map(code, logs.KEY_FIELDS))
    return document(
        "Log events",
        _INTRODUCTION,
        "## edge-agent",
        f"An event with the same name and the same {fields} is written at most once a minute; the next one carries how many were "
        "left out (`suppressed`). `edge-agent run --log-format console` writes for people.",
        _table(edge_agent, names, declared),
        "## cloud-hub",
        "A warning or error with the same name and the same `key` is written at most once a minute; the next one carries how many were "
        "left out (`repeated`).",
        _table(cloud_hub, {}, _HUB_SENTENCES),
    )


def _table(package: object, names: Mapping[str, str], sentences: Mapping[str, str]) -> str:
    folder = Path(package.__path__[0])  # type: ignore[attr-defined]
    found: dict[str, tuple[set[str], dict[str, None]]] = {}
    for event, level, keys in log_calls(folder):
        levels, known = found.setdefault(names.get(event, event), (set(), {}))
        levels.add(level)
        known.update(dict.fromkeys(keys))
    if unknown := sorted(set(found) - set(sentences)):
        raise LookupError(
            f"{', '.join(unknown)}: no sentence in {__name__} or in the list of events"
        )
    rows = [
        (code(event), ", ".join(sorted(levels)), ", ".join(map(code, keys)), sentences[event])
        for event, (levels, keys) in sorted(found.items())
    ]
    return table(("event", "level", "keys", "meaning"), rows)
