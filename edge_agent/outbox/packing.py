"""Rows to messages: consecutive, of one subject, headers and body within the limit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contract.encoding import MAX_MESSAGE_BYTES, compress, encode
from contract.messages import SCHEMA_VERSION, Row, RowMessage
from contract.status import Lane
from contract.subjects import ENCODING, MSG_ID, SCHEMA, lane_subject, message_id
from edge_agent.types import StoredRow

READ_BYTES: Final = MAX_MESSAGE_BYTES - 8 * 1024
"""Plain bytes of rows read for one message: what is left is for headers and framing."""
READ_ROWS: Final = 4096
_ROW_FRAME_BYTES: Final = 32
_HEADER_FRAME_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Message:
    """One message to the hub. It answers for the numbers after..last of its lane, shed ones included."""

    lane: Lane
    rows: tuple[StoredRow, ...]
    after: int
    last: int
    subject: str
    headers: dict[str, str]
    body: bytes
    epoch: str
    repair: str = ""
    """What makes the id of a message new that goes again because the hub lacks it."""

    @property
    def size(self) -> int:
        """Headers and body together, as the server counts them."""
        return size_of(self.headers, self.body)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends: the device, and the epoch of its outbox."""

    device: str
    epoch: str


def run_of(rows: Sequence[StoredRow], *, lane: Lane) -> tuple[StoredRow, ...]:
    """The rows of the next message: up to the size that fits, and in `bulk` up to a change of model."""
    taken: list[StoredRow] = []
    size = 0
    for row in rows:
        size += len(row.body) + _ROW_FRAME_BYTES
        other = lane is Lane.BULK and bool(taken) and row.model != taken[0].model
        if taken and (other or size > READ_BYTES):
            break
        taken.append(row)
    return tuple(taken)


def pack(
    rows: tuple[StoredRow, ...], *, lane: Lane, after: int, sender: Sender, repair: str = ""
) -> Message:
    """The message of these rows; `repair` makes its id new, so that no duplicate window swallows it."""
    body, encoding = compress(
        encode(
            RowMessage(sender.epoch, lane, tuple(Row(row.seq, row.kind, row.body) for row in rows))
        )
    )
    name = message_id(sender.device, sender.epoch, lane, rows[0].seq, rows[-1].seq)
    return Message(
        lane=lane,
        rows=rows,
        after=after,
        last=rows[-1].seq,
        subject=lane_subject(sender.device, lane, rows[0].model),
        headers={
            MSG_ID: f"{name}:{repair}" if repair else name,
            SCHEMA: str(SCHEMA_VERSION),
            ENCODING: encoding,
        },
        body=body,
        epoch=sender.epoch,
        repair=repair,
    )


def size_of(headers: dict[str, str], body: bytes) -> int:
    """Headers and body together, as the server counts them."""
    lines = sum(len(name) + len(value.encode()) + 4 for name, value in headers.items())
    return lines + len(body) + _HEADER_FRAME_BYTES
