"""Messages of a lane become rows for the tables, or dead letters with a reason. Pure: no I/O, no clock.

One bad row harms no other row, and one bad message no other message. What was set aside counts as stored,
because asking for it again would bring the same bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from cloud_hub.ingest.rows import RowError, RowPlace, add_row
from cloud_hub.store.apply import Batch
from cloud_hub.types import Delivery
from contract import subjects
from contract.encoding import EncodingError, decode, expand
from contract.messages import SCHEMA_VERSION
from contract.status import Lane
from contract.subjects import Address

MAX_SEQ: Final = 2**53
MAX_ROWS: Final = 4096
"""Rows in a message, at most; the forwarder of a device reads no more for one."""
MAX_ROWS_IN_RANGE: Final = 1_000_000
MAX_LETTERS: Final = 16
"""Dead letters that one message can lead to; its other bad rows are told by one more, without their bytes."""
_RANGE = re.compile(r"(?P<first>[0-9]{1,16})-(?P<last>[0-9]{1,16})")


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """As `contract.messages.Row`, but of a class that may be unknown here."""

    seq: int
    kind: str
    body: bytes


class _RowMessage(msgspec.Struct, frozen=True):
    epoch: str
    lane: str
    rows: tuple[_Row, ...]


class MessageError(ValueError):
    """A message that is not rows of the lane and device that its subject names."""


def decode_deliveries(deliveries: Sequence[Delivery], lane: Lane, *, received_s: float) -> Batch:
    """Everything that these messages hold, as one batch."""
    batch = Batch(received_s)
    for delivery in deliveries:
        address = subjects.parse(delivery.subject)
        if address is None:
            _set_message_aside(
                batch, delivery, lane, device="", reason="the subject names no device"
            )
            continue
        try:
            message = _open(delivery, address, lane)
        except (MessageError, EncodingError) as error:
            _set_message_aside(batch, delivery, lane, device=address.device, reason=str(error))
            continue
        before = batch.set_aside
        for row in message.rows:
            place = RowPlace(address.device, message.epoch, lane, row.seq)
            kept = batch.set_aside - before < MAX_LETTERS
            _add(batch, place, row, address, kept=kept)
        if (more := batch.set_aside - before - MAX_LETTERS) > 0:
            _tell_the_rest(batch, delivery, address, message, more=more)
    return batch


def set_aside(
    deliveries: Sequence[Delivery], lane: Lane, *, received_s: float, reason: str
) -> Batch:
    """A batch that holds these messages as dead letters only."""
    batch = Batch(received_s)
    for delivery in deliveries:
        address = subjects.parse(delivery.subject)
        device = "" if address is None else address.device
        _set_message_aside(batch, delivery, lane, device=device, reason=reason)
    return batch


def _open(delivery: Delivery, address: Address, lane: Lane) -> _RowMessage:
    if address.kind != lane:
        raise MessageError(f"a subject of {address.kind!r} in the stream of {lane!r}")
    schema = delivery.headers.get(subjects.SCHEMA, str(SCHEMA_VERSION))
    if schema != str(SCHEMA_VERSION):
        raise MessageError(f"schema {schema[:16]!r}; this hub reads {SCHEMA_VERSION}")
    plain = expand(delivery.body, delivery.headers.get(subjects.ENCODING, ""))
    message = decode(plain, _RowMessage)
    if message.lane != lane:
        raise MessageError(f"rows of {message.lane[:16]!r} in the stream of {lane!r}")
    if not subjects.is_request_id(message.epoch):
        raise MessageError("an epoch has 1 to 64 letters, digits, - and _")
    claimed = delivery.headers.get(subjects.MSG_ID, "").split(":")
    if len(claimed) == 4 and claimed[:3] != [address.device, message.epoch, str(lane)]:
        raise MessageError("the message id names another device, epoch or lane than the message")
    if not message.rows:
        raise MessageError("a message without rows")
    if len(message.rows) > MAX_ROWS:
        raise MessageError(f"{len(message.rows)} rows in a message; at most {MAX_ROWS}")
    return message


def _add(batch: Batch, place: RowPlace, row: _Row, address: Address, *, kept: bool) -> None:
    """Adds a row, or sets it aside; it becomes a dead letter if those are `kept`."""
    numbered = 1 <= row.seq <= MAX_SEQ
    try:
        if not numbered:
            raise RowError("a row's number is between 1 and 2^53")
        readings = add_row(batch, place, row.kind, row.body, subject=address.rest)
    except (RowError, EncodingError) as error:
        batch.set_aside += 1
        if numbered:
            batch.covered.setdefault(place.key, []).append((row.seq, row.seq))
        if kept:
            _keep_row(batch, place, row, address, str(error))
        return
    batch.rows.setdefault(place.key, {})[row.seq] = readings


def _tell_the_rest(
    batch: Batch, delivery: Delivery, address: Address, message: _RowMessage, *, more: int
) -> None:
    """One dead letter for the bad rows of a message beyond those that are kept."""
    numbers = [row.seq for row in message.rows if 1 <= row.seq <= MAX_SEQ]
    identity = f"{delivery.subject}\n{message.epoch}\n{more}\n".encode()
    batch.dead_letters.append(
        {
            "digest": hashlib.sha256(identity + delivery.body).hexdigest(),
            "device": address.device,
            "subject": _clean(delivery.subject),
            "epoch": message.epoch,
            "lane": message.lane,
            "first": min(numbers, default=None),
            "last": max(numbers, default=None),
            "reason": f"{more} more rows of this message that cannot be used",
            "size": len(delivery.body),
            "body": None,
            "received_s": batch.received_s,
        }
    )


def _keep_row(batch: Batch, place: RowPlace, row: _Row, address: Address, reason: str) -> None:
    numbered = 1 <= row.seq <= MAX_SEQ
    identity = f"{place.device}:{place.epoch}:{place.lane}:{row.seq}:{row.kind}"
    batch.dead_letters.append(
        {
            "digest": hashlib.sha256(identity.encode() + row.body).hexdigest(),
            "device": place.device,
            "subject": ".".join((subjects.ROOT, *address[:2], *address.rest)),
            "epoch": place.epoch,
            "lane": place.lane,
            "first": row.seq if numbered else None,
            "last": row.seq if numbered else None,
            "reason": _clean(reason),
            "size": len(row.body),
            "body": row.body,
            "received_s": batch.received_s,
        }
    )


def _set_message_aside(
    batch: Batch, delivery: Delivery, lane: Lane, *, device: str, reason: str
) -> None:
    batch.set_aside += 1
    message_id = delivery.headers.get(subjects.MSG_ID, "")
    epoch, span = _claimed_range(delivery.headers, device, lane)
    if span is not None:
        batch.covered.setdefault((device, epoch, lane), []).append(span)
    identity = f"{delivery.subject}\n{message_id}\n".encode()
    batch.dead_letters.append(
        {
            "digest": hashlib.sha256(identity + delivery.body).hexdigest(),
            "device": device,
            "subject": _clean(delivery.subject),
            "epoch": epoch,
            "lane": lane,
            "first": None if span is None else span[0],
            "last": None if span is None else span[1],
            "reason": _clean(reason),
            "size": len(delivery.body),
            "body": delivery.body,
            "received_s": batch.received_s,
        }
    )


def _claimed_range(
    headers: Mapping[str, str], device: str, lane: Lane
) -> tuple[str, tuple[int, int] | None]:
    """Epoch and rows that the id of an unreadable message claims, if it is the sender's own claim."""
    parts = headers.get(subjects.MSG_ID, "").split(":")
    span = _RANGE.fullmatch(parts[3]) if len(parts) == 4 else None
    if (
        span is None
        or parts[0] != device
        or parts[2] != lane
        or not subjects.is_request_id(parts[1])
    ):
        return "", None
    first, last = int(span["first"]), int(span["last"])
    if not 1 <= first <= last <= MAX_SEQ or last - first >= MAX_ROWS_IN_RANGE:
        return parts[1], None
    return parts[1], (first, last)


def _clean(text: str) -> str:
    """What any database takes as text."""
    return text.replace("\x00", "\\0")[:500]
