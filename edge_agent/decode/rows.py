"""What a decoder fills: rows of channel values, and the reasons why some are missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from contract.status import Fault


class Reject(Exception):
    """A message that leads to no reading; `fault` says why, the text says what a person needs."""

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault


@dataclass(slots=True)
class Rows:
    """Decoded readings in columns: `times` one a row (NaN: none given), `values` c a row, flattened.

    `faults` are (row, channel index, fault, detail) of channels that hold NaN; `time_faults` are
    (row, detail) of times that could not be read.
    """

    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    faults: list[tuple[int, int, Fault, str]] = field(default_factory=list)
    time_faults: list[tuple[int, str]] = field(default_factory=list)


class Decoder(Protocol):
    """A payload convention, compiled for the channels of one stream table."""

    def decode(self, payload: bytes, rows: Rows) -> int:
        """Appends the readings of one message and returns how many; raises Reject for none."""
