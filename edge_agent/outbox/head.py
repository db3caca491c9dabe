"""The counters of the spool: one small record, written with every transaction, read once at boot.

It is why boot does not depend on the backlog, and why the state of the outbox costs no query.
"""

from __future__ import annotations

import zlib

import msgspec

from contract.status import Lane, RowClass

MAX_LEVEL = 4
"""Raw rows are thinned to every 16th before they are dropped."""


class LaneHead(msgspec.Struct):
    """One lane. Numbers start at 1; `first` is the lowest row held, 0 when there is none."""

    next_seq: int = 1
    applied: int = 0
    first: int = 0
    oldest_s: float | None = None
    total: int = 0
    """Readings that ever entered the lane."""


class ClassHead(msgspec.Struct):
    """What is held of one class, and what was given up."""

    rows: int = 0
    readings: int = 0
    bytes: int = 0
    shed_rows: int = 0
    shed_readings: int = 0


class Since(msgspec.Struct):
    """How much the `tel` lane holds beyond a number."""

    rows: int = 0
    readings: int = 0
    bytes: int = 0


def _no_cuts() -> list[int]:
    return [0] * (MAX_LEVEL + 1)


class Head(msgspec.Struct):
    """All counters of one spool.

    `number` counts transactions. `age_s` is the time the spool was in use: it runs with the monotonic
    clock, so that a jump of the wall clock makes no row old. `floor`: raw rows up to it are not
    needed to rebuild windows; `since_floor` is what lies beyond. `round_at`: where an open round of
    checkpoints began, `round_bytes` the size of the last whole one. `cuts[k]`: raw rows up to it are thinned to every 2**(k+1)th;
    `cuts[MAX_LEVEL]`: dropped.
    """

    epoch: str
    number: int = 0
    age_s: float = 0.0
    floor: int = 0
    since_floor: Since = msgspec.field(default_factory=Since)
    round_bytes: int = 0
    round_at: int | None = None
    round_since: Since = msgspec.field(default_factory=Since)
    round_bytes_now: int = 0
    cuts: list[int] = msgspec.field(default_factory=_no_cuts)
    lanes: dict[Lane, LaneHead] = msgspec.field(
        default_factory=lambda: {lane: LaneHead() for lane in Lane}
    )
    classes: dict[RowClass, ClassHead] = msgspec.field(
        default_factory=lambda: {kind: ClassHead() for kind in RowClass}
    )
    dead_letters: int = 0
    bad_rows: int = 0
    replaces: str = ""
    """The epoch of a lost spool that was declared here."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Head)


def pack_head(head: Head) -> tuple[bytes, int]:
    """The bytes of a head, and their checksum."""
    body = _encoder.encode(head)
    return body, zlib.crc32(body)


def unpack_head(body: object, checksum: object) -> Head | None:
    """The head in `body`, or None when it is not what was written."""
    if not isinstance(body, bytes) or zlib.crc32(body) != checksum:
        return None
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        return None
