"""wire.md: subjects, headers and messages between devices and the hub."""

from __future__ import annotations

import inspect

import msgspec

from contract import encoding, messages, subjects
from contract.status import Lane, Priority
from contract.tensors import DTYPES
from docs.generator.fields import struct_rows
from docs.generator.markdown import code, document, table
from docs.generator.source import member_sentences

_D, _MODEL, _REQUEST = "D", "MODEL", "REQUEST"

_INTRODUCTION = """
Between a device and the hub there is NATS. `D` stands for the device: its public nkey, or its name in a setup without keys.
The hub takes the sender from the subject, never from a body.
"""
_HEADERS = {
    "MSG_ID": "`<device>:<epoch>:<lane>:<first>-<last>`; rows that go again because the hub lacks them have `:` and a random word after it.",
    "SCHEMA": "Version of the body; the hub sets a message of another one aside.",
    "ENCODING": "`identity` or `zlib`.",
    "BUDGET_MS": "What is left of the deadline, less half the round trip.",
    "REQUEST": "The id of the request; the same id is run once and answered alike.",
    "STATUS": "How a request ended.",
    "RETRY_AFTER_MS": "With BUSY: when to come again.",
    "QUEUE_MS": "How long the request waited for its batch.",
    "RUN_MS": "How long the batch ran.",
    "BATCH": "Rows in that batch.",
}
_NOT_USED = ("TRACE",)


def page() -> str:
    """The page."""
    return document(
        "The wire between device and hub",
        _INTRODUCTION,
        "## Subjects",
        _subjects(),
        f"The hub's processes share requests in the queue group `{subjects.QUEUE_GROUP}`. A reply goes to `{subjects.inbox_prefix(_D)}.…` "
        "only; a request with another reply subject is dropped and counted.",
        "## Streams",
        table(
            ("JetStream stream", "subjects"),
            [(code(name), code(subjects.lane_filter(lane))) for lane, name in subjects.STREAM_OF.items()],
        ),
        f"File storage, retention `workqueue`, discard `new`, no maximum age, duplicate window {subjects.DUPLICATE_WINDOW_S} s, size `nats.max_stream_bytes`, "
        f"one durable pull consumer `{subjects.CONSUMER}` each. The hub makes them.",
        "## Headers",
        table(
            ("header", "meaning"),
            [(code(getattr(subjects, name)), text) for name, text in _HEADERS.items()],
        ),
        "## Sizes",
        table(
            ("limit", "bytes"),
            [
                ("headers and body of a message from a device", f"{encoding.MAX_MESSAGE_BYTES:,}"),
                ("a compressed body, unpacked", f"{encoding.MAX_BODY_BYTES:,}, and at most {encoding.MAX_RATIO} times its size"),
                ("readings in one row", f"{encoding.MAX_READINGS_PER_ROW} readings"),
            ],
        ),
        "## Messages",
        "Bodies are MessagePack maps. Unknown fields are ignored. Columns are little-endian bytes with their shape beside them; "
        f"a tensor is `[type, shape, bytes]` with a type of {', '.join(map(code, DTYPES))}. Times are UTC seconds since 1970.",
        *_messages(),
    )  # fmt: skip


def _subjects() -> str:
    up, down = "device → hub", "hub → device"
    rows = [
        (code(subjects.lane_subject(_D, Lane.TEL)), up, "JetStream", "`RowMessage`: raw readings, rollups"),
        (code(subjects.lane_subject(_D, Lane.EVT)), up, "JetStream", "`RowMessage`: alarms, verdict events, revisions, gaps"),
        (code(subjects.lane_subject(_D, Lane.BULK, _MODEL)), up, "JetStream", "`RowMessage`: escalations of one model family"),
        *(
            (code(subjects.infer_subject(_D, priority, _MODEL)), up, "request", "`InferRequest` → `InferAnswer`")
            for priority in Priority
        ),
        (code(subjects.cancel_subject(_D, _REQUEST)), up, "message", "takes a request back; no body"),
        (code(subjects.state_subject(_D)), up, "request", "`StateReport` → `StateAnswer`"),
        (code(subjects.nudge_subject(_D)), down, "message", "asks for a state exchange now; no body"),
    ]  # fmt: skip
    return table(("subject", "direction", "kind", "body"), rows)


def _messages() -> list[str]:
    parts = []
    structs = (
        each
        for each in vars(messages).values()
        if isinstance(each, type)
        and issubclass(each, msgspec.Struct)
        and each.__module__ == messages.__name__
    )
    for struct in structs:
        sentences = member_sentences(messages, struct.__name__)
        described = [
            (code(n), kind, default, sentences.get(n, ""))
            for n, kind, default in struct_rows(struct)
        ]
        parts += [f"### {struct.__name__}", inspect.getdoc(struct) or ""]
        if any(row[3] for row in described):
            parts.append(table(("field", "type", "default", "meaning"), described))
        else:
            parts.append(table(("field", "type", "default"), [row[:3] for row in described]))
    return parts
