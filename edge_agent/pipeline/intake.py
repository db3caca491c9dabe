"""Messages to accepted readings, with a note on everything that was not used."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from contract.status import Fault
from contract.trust import ReadingFlag
from edge_agent.decode.rows import Decoder, Reject, Rows
from edge_agent.errors import ConfigurationError
from edge_agent.readings.clock import trusted_times
from edge_agent.readings.registry import Kind, Registry, TooManyStreams
from edge_agent.readings.validate import check_values
from edge_agent.types import FaultNote, MessageBatch, ReadingBatch

SAMPLE_BYTES = 256
MAX_TOPIC_LENGTH = 1024
"""Longer topics are refused: they would be kept as names of streams."""
NOTES_PER_BATCH = 3
"""Samples of one kind of fault in one batch; the rest is only counted."""

# As numpy's own bytes: a flag of Python's would widen the column.
_TIME_UNTRUSTED = np.uint8(ReadingFlag.TIME_UNTRUSTED)
_CHANNEL_REJECTED = np.uint8(ReadingFlag.CHANNEL_REJECTED)


@dataclass(slots=True)
class _Columns:
    rows: Rows = field(default_factory=Rows)
    slots: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)


class Notes:
    """Faults of one batch: every one counted, the first few sampled."""

    def __init__(self, batch: MessageBatch) -> None:
        """Nothing noted yet."""
        self.repeated = 0
        """Readings that were dropped because they are stored already: no fault."""
        self._batch = batch
        self._notes: list[FaultNote] = []
        self._sampled: dict[tuple[Fault, str], int] = {}
        self._more: dict[tuple[Fault, str], int] = {}

    def add(self, fault: Fault, message: int, *, stream: str = "", detail: str = "") -> None:
        """Notes a fault of one message."""
        key = (fault, stream)
        count = self._sampled.get(key, 0)
        if count >= NOTES_PER_BATCH or len(self._notes) >= 64:
            self._more[key] = self._more.get(key, 0) + 1
            return
        self._sampled[key] = count + 1
        topic = self._batch.topics[message]
        sample = self._batch.payloads[message][:SAMPLE_BYTES]
        self._notes.append(
            FaultNote(fault, 1, (topic or "")[:SAMPLE_BYTES], stream, detail, sample)
        )

    def all(self) -> list[FaultNote]:
        """Every fault: those with a sample, then the counts of the rest."""
        rest = [
            FaultNote(fault, count, "", stream, "", b"")
            for (fault, stream), count in self._more.items()
        ]
        return self._notes + rest


class Intake:
    """Decodes and validates: a message is used, flagged, or noted with the reason."""

    def __init__(
        self, registry: Registry, decoders: list[Decoder], *, max_payload_bytes: int
    ) -> None:
        """`decoders` are one for each kind of the registry."""
        self._registry = registry
        self._decoders = decoders
        self._max_payload_bytes = max_payload_bytes

    def decode(self, batch: MessageBatch, notes: Notes) -> dict[int, _Columns]:
        """The readings of a batch by kind, as they stand in the payloads."""
        columns: dict[int, _Columns] = {}
        for message, topic in enumerate(batch.topics):
            payload = batch.payloads[message]
            if topic is None:
                notes.add(Fault.BAD_TEXT, message, detail="the topic is not UTF-8")
                continue
            if len(topic) > MAX_TOPIC_LENGTH:
                detail = f"a topic of {len(topic)} characters, the limit is {MAX_TOPIC_LENGTH}"
                notes.add(Fault.TOO_LARGE, message, detail=detail)
                continue
            if batch.retained[message]:
                notes.add(Fault.RETAINED, message, detail="an old value kept by the broker")
                continue
            if len(payload) > self._max_payload_bytes:
                detail = f"{len(payload)} bytes, the limit is {self._max_payload_bytes}"
                notes.add(Fault.TOO_LARGE, message, detail=detail)
                continue
            for kind, slot in self._plan(topic, message, notes):
                into = columns.get(kind)
                if into is None:
                    into = columns[kind] = _Columns()
                try:
                    count = self._decoders[kind].decode(payload, into.rows)
                except Reject as reason:
                    stream = self._registry.name(kind, slot)
                    notes.add(reason.fault, message, stream=stream, detail=str(reason))
                    continue
                if count == 1:
                    into.slots.append(slot)
                    into.messages.append(message)
                else:
                    into.slots.extend([slot] * count)
                    into.messages.extend([message] * count)
        return columns

    def _plan(self, topic: str, message: int, notes: Notes) -> tuple[tuple[int, int], ...]:
        try:
            plan = self._registry.plan(topic)
        except TooManyStreams:
            detail = "limits.max_streams is reached"
            notes.add(Fault.TOO_MANY_STREAMS, message, detail=detail)
            return ()
        except ConfigurationError as error:
            notes.add(Fault.NO_STREAM, message, detail=str(error))
            return ()
        if not plan:
            notes.add(Fault.NO_STREAM, message, detail="no [[stream]] claims this topic")
        return plan

    def validate(
        self,
        kind: Kind,
        columns: _Columns,
        batch: MessageBatch,
        notes: Notes,
        *,
        suspects: Collection[int] = (),
    ) -> ReadingBatch | None:
        """The accepted readings of one kind; None when there are none.

        `suspects` are messages whose content was stored before. Those of their readings that bring a
        time of their own are the same readings again; without one they may be new ones.
        """
        count = len(columns.slots)
        if not count:
            return None
        messages = np.array(columns.messages, dtype=np.int32)
        slots = np.array(columns.slots, dtype=np.int32)
        values = np.array(columns.rows.values).reshape(count, len(kind.channels))
        arrivals_s = batch.arrivals_s[messages]
        given = np.array(columns.rows.times)
        times_s, untrusted, own_s = trusted_times(given, arrivals_s, kind.settings.time)
        checked = check_values(values, kind.limits)
        flags = np.zeros(count, dtype=np.uint8)
        if untrusted.any():
            flags[untrusted] |= _TIME_UNTRUSTED
            self._note_times(kind, columns, untrusted, given, notes)
        if checked.out_of_range.any():
            self._note_range(kind, columns, checked.out_of_range, values, notes)
        self._note_decoding(kind, columns, notes)
        accepted = checked.values
        holes = np.isnan(accepted)
        if suspects or holes.any():
            flags[holes.any(axis=1)] |= _CHANNEL_REJECTED
            kept = ~holes.all(axis=1)
            if suspects:
                again = kept & ~np.isnan(given) & np.isin(messages, list(suspects))
                notes.repeated += int(again.sum())
                kept &= ~again
            if not kept.any():
                return None
            slots, messages, times_s = slots[kept], messages[kept], times_s[kept]
            arrivals_s, flags, accepted = arrivals_s[kept], flags[kept], accepted[kept]
            own_s = own_s[kept]
        return ReadingBatch(
            kind=kind.index,
            slots=slots,
            messages=messages,
            times_s=times_s,
            arrivals_s=arrivals_s,
            arrivals_ns=batch.arrivals_ns[messages],
            values=accepted,
            flags=flags,
            own_s=None if np.isnan(own_s).all() else own_s,
        )

    def _note_times(
        self, kind: Kind, columns: _Columns, rows: np.ndarray, given: np.ndarray, notes: Notes
    ) -> None:
        for row in np.flatnonzero(rows):
            stream = self._registry.name(kind.index, columns.slots[row])
            detail = f"the payload's time is {given[row]:.0f}; its arrival is used"
            notes.add(Fault.TIME_UNTRUSTED, columns.messages[row], stream=stream, detail=detail)

    def _note_range(
        self, kind: Kind, columns: _Columns, outside: np.ndarray, values: np.ndarray, notes: Notes
    ) -> None:
        for row, channel in zip(*np.nonzero(outside), strict=True):
            low, high = kind.limits.low[channel], kind.limits.high[channel]
            notes.add(
                Fault.OUT_OF_RANGE,
                columns.messages[row],
                stream=self._registry.name(kind.index, columns.slots[row]),
                detail=f"{kind.channels[channel]} = {values[row, channel]:g}, "
                f"possible is {low:g} to {high:g}",
            )

    def _note_decoding(self, kind: Kind, columns: _Columns, notes: Notes) -> None:
        for row, _, fault, detail in columns.rows.faults:
            stream = self._registry.name(kind.index, columns.slots[row])
            notes.add(fault, columns.messages[row], stream=stream, detail=detail)
        if kind.settings.time == "arrival":
            return  # nobody asked for the payload's time
        for row, detail in columns.rows.time_faults:
            stream = self._registry.name(kind.index, columns.slots[row])
            notes.add(Fault.BAD_TIME, columns.messages[row], stream=stream, detail=detail)
