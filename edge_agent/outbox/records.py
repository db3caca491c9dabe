"""A row as it lies in the file, with two checksums: one of what is said about it, one of its body.

Two, so that the number of readings in a row with a damaged body is still known exactly.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final, NamedTuple

from contract.status import RowClass
from edge_agent.types import StoredRow

ROW_BYTES: Final = 64
"""What a row costs beside its body: columns, cell header, its share of the page."""

CODE_OF: Final = {
    RowClass.ALARM: 1,
    RowClass.VERDICT: 2,
    RowClass.REVISION: 3,
    RowClass.GAP: 4,
    RowClass.ESCALATION: 5,
    RowClass.ROLLUP: 6,
    RowClass.RAW: 7,
}
"""Numbers of the classes in the file; a number is never given twice."""
CLASS_OF: Final = {code: kind for kind, code in CODE_OF.items()}

COLUMNS: Final = "seq, kind, created, age, before, readings, model, meta_sum, body_sum, body"
META_COLUMNS: Final = "seq, kind, created, age, before, readings, model, meta_sum, length(body)"
_META = struct.Struct("<qBddqq")


class Record(NamedTuple):
    """One row: `before` counts the readings that entered its lane before it."""

    seq: int
    kind: int
    created: float
    age: float
    before: int
    readings: int
    model: str
    meta_sum: int
    body_sum: int
    body: bytes

    @property
    def cost(self) -> int:
        """The bytes it is counted as."""
        return len(self.body) + len(self.model) + ROW_BYTES

    def stored(self) -> StoredRow:
        """The row as the rest of the device sees it."""
        return StoredRow(
            seq=self.seq,
            kind=CLASS_OF[self.kind],
            body=self.body,
            readings=self.readings,
            model=self.model,
            created_s=self.created,
        )


def seal(
    seq: int,
    *,
    kind: RowClass,
    created: float,
    age: float,
    before: int,
    readings: int,
    model: str,
    body: bytes,
) -> Record:
    """A record with its checksums."""
    code = CODE_OF[kind]
    meta_sum = zlib.crc32(_META.pack(seq, code, created, age, before, readings) + model.encode())
    return Record(
        seq, code, created, age, before, readings, model, meta_sum, zlib.crc32(body), body
    )


def meta_is_sound(row: tuple[Any, ...]) -> bool:
    """Whether the first eight columns of a row are what was written."""
    seq, kind, created, age, before, readings, model, meta_sum = row[:8]
    try:
        packed = _META.pack(seq, kind, created, age, before, readings) + model.encode()
    except (struct.error, AttributeError, TypeError):
        return False
    return zlib.crc32(packed) == meta_sum and kind in CLASS_OF


def unseal(row: tuple[Any, ...]) -> Record | None:
    """The record in the ten columns of a row, or None when any bit of it is not what was written."""
    body = row[9]
    if not meta_is_sound(row) or not isinstance(body, bytes) or zlib.crc32(body) != row[8]:
        return None
    return Record(*row)
