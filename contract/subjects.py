"""Every NATS subject, stream and header of the product, and the rules for ids.

Identity is taken from a subject (which the server checks), never from a payload.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from contract.status import Lane, Priority

ROOT: Final = "edge.v1"
QUEUE_GROUP: Final = "hub"
CONSUMER: Final = "hub"
INBOX: Final = "_INBOX_"

NAME_PATTERN: Final = r"[a-z0-9][a-z0-9_-]{0,62}"
_NAME = re.compile(NAME_PATTERN)
_NKEY = re.compile(r"U[A-Z2-7]{55}")
_REQUEST = re.compile(r"[A-Za-z0-9_-]{1,64}")

STREAM_OF: Final = {Lane.EVT: "EDGE_EVT", Lane.BULK: "EDGE_BULK", Lane.TEL: "EDGE_TEL"}
DUPLICATE_WINDOW_S: Final = 600

MSG_ID: Final = "Nats-Msg-Id"
SCHEMA: Final = "Edge-Schema"
ENCODING: Final = "Content-Encoding"
BUDGET_MS: Final = "Edge-Budget-Ms"
REQUEST: Final = "Edge-Request"
STATUS: Final = "Edge-Status"
RETRY_AFTER_MS: Final = "Edge-Retry-After-Ms"
QUEUE_MS: Final = "Edge-Queue-Ms"
RUN_MS: Final = "Edge-Run-Ms"
BATCH: Final = "Edge-Batch"
TRACE: Final = "traceparent"


class Address(NamedTuple):
    """What a subject says: which device, which kind of message, and the rest of its tokens."""

    device: str
    kind: str
    rest: tuple[str, ...]


def is_name(text: str) -> bool:
    """Whether `text` is a valid name of a device, a model family or a site."""
    return _NAME.fullmatch(text) is not None


def is_device(text: str) -> bool:
    """Whether `text` may stand for a device in a subject: a public nkey, or a name."""
    return _NKEY.fullmatch(text) is not None or is_name(text)


def is_request_id(text: str) -> bool:
    """Whether `text` may be the id of a request (it becomes a subject token)."""
    return _REQUEST.fullmatch(text) is not None


def lane_subject(device: str, lane: Lane, model: str = "") -> str:
    """The subject on which `device` publishes rows of `lane`; `bulk` also names the model."""
    if lane is Lane.BULK:
        return f"{ROOT}.{device}.bulk.{model}"
    return f"{ROOT}.{device}.{lane}"


def lane_filter(lane: Lane) -> str:
    """The subject filter of the JetStream stream that captures `lane` of every device."""
    return f"{ROOT}.*.bulk.*" if lane is Lane.BULK else f"{ROOT}.*.{lane}"


def infer_subject(device: str, priority: Priority, model: str) -> str:
    """The subject of an inference request."""
    return f"{ROOT}.{device}.inf.{priority}.{model}"


def cancel_subject(device: str, request: str) -> str:
    """The subject that cancels one request."""
    return f"{ROOT}.{device}.can.{request}"


def state_subject(device: str) -> str:
    """The subject of the state exchange."""
    return f"{ROOT}.{device}.state"


def nudge_subject(device: str) -> str:
    """The subject on which the hub asks a device to ask."""
    return f"{ROOT}.{device}.nudge"


def inbox_prefix(device: str) -> str:
    """The private prefix of the replies to `device`."""
    return f"{INBOX}{device}"


def is_reply_of(device: str, reply: str) -> bool:
    """Whether a reply subject belongs to `device`; the server does not check it, the hub must."""
    return reply.startswith(f"{INBOX}{device}.")


def parse(subject: str) -> Address | None:
    """What a subject says, or None when it is not one of ours."""
    tokens = subject.split(".")
    if len(tokens) < 4 or ".".join(tokens[:2]) != ROOT or not is_device(tokens[2]):
        return None
    return Address(tokens[2], tokens[3], tuple(tokens[4:]))


def message_id(device: str, epoch: str, lane: Lane, first: int, last: int) -> str:
    """The `Nats-Msg-Id` of a message that carries the rows first..last of a lane."""
    return f"{device}:{epoch}:{lane}:{first}-{last}"
