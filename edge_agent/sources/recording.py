"""Recorded messages, one JSON object a line, in any number of files.

    {"t": 1764490000.5, "topic": "site/pump/1", "payload": {"flow": 3.1}}
    {"t": "2026-11-30T08:15:02Z", "topic": "site/door", "payload": "OPEN", "retained": true}
    {"t": 1764490001, "topic": "site/raw", "payload_b64": "AWcA1w==", "qos": 1}

* `t`: when the message arrived: seconds since 1970 (UTC) or ISO 8601; without a zone it is UTC.
* `topic`: as published.
* `payload`: a JSON string is the payload's text itself; any other JSON value is the payload as it
  stands in the line, byte for byte. `payload_b64`: the payload in Base64. One of the two.
* `qos` (0 or 1, default 0) and `retained` (default false). Other keys are ignored.

Empty lines are skipped. Files are read line by line, never whole, and merged by `t`: at equal
times the file that was named first comes first. Within a file the order of lines is kept.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from edge_agent.errors import EdgeError

_MAX_LINE_BYTES = 8 * 1024 * 1024


class RecordingError(EdgeError):
    """A recording cannot be read; the text names the file, the line and what is wrong."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded message."""

    time_s: float
    topic: str
    payload: bytes
    qos: int = 0
    retained: bool = False


class _Line(msgspec.Struct):
    t: float | str
    topic: str
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload_b64: str | None = None
    qos: int = 0
    retained: bool = False


_DECODER = msgspec.json.Decoder(_Line)


def read_recordings(paths: Iterable[Path]) -> Iterator[Recorded]:
    """All messages of the files, merged by time; raises RecordingError at the first broken line.

    A folder stands for its `*.ndjson` files, by name.
    """
    with ExitStack() as stack:
        readers = []
        for path in _files(paths):
            reader = _File(path)
            stack.callback(reader.close)
            readers.append(reader)
        yield from heapq.merge(*readers, key=lambda message: message.time_s)


def parse_line(line: bytes) -> Recorded:
    """One line as a message; raises ValueError that says what is wrong with it."""
    try:
        parsed = _DECODER.decode(line)
    except RecursionError:
        raise ValueError(
            "the line is nested too deeply; record such a payload as a string"
        ) from None
    if parsed.qos not in {0, 1}:
        raise ValueError(f"qos is {parsed.qos}; valid are 0 and 1")
    if not parsed.topic:
        raise ValueError("topic is empty")
    return Recorded(
        time_s=_time_s(parsed.t),
        topic=parsed.topic,
        payload=_payload(parsed),
        qos=parsed.qos,
        retained=parsed.retained,
    )


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            found = sorted(path.glob("*.ndjson"))
            if not found:
                raise RecordingError(f"{path} holds no *.ndjson file")
            yield from found
        else:
            yield path


class _File:
    """The messages of one file, in its order; holds the file open until closed or read up."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise RecordingError(f"cannot read {path}: {error.strerror}") from error

    def __iter__(self) -> Iterator[Recorded]:
        return self

    def __next__(self) -> Recorded:
        while True:
            line = self._file.readline(_MAX_LINE_BYTES + 1)
            self._number += 1
            if not line:
                self.close()
                raise StopIteration
            if len(line) > _MAX_LINE_BYTES:
                raise self._error(f"the line is longer than {_MAX_LINE_BYTES} bytes")
            line = line.strip()
            if not line:
                continue
            try:
                return parse_line(line)
            except ValueError as error:  # msgspec's errors are ValueErrors
                raise self._error(str(error)) from error

    def close(self) -> None:
        self._file.close()

    def _error(self, what: str) -> RecordingError:
        return RecordingError(f"{self._path}:{self._number}: {what}")


def _time_s(t: float | str) -> float:
    if isinstance(t, str):
        try:
            moment = datetime.fromisoformat(t)
        except ValueError:
            raise ValueError(
                f"t is {t!r}; valid are seconds since 1970 or ISO 8601, as 2026-11-30T08:15:02Z"
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp()
    if not math.isfinite(t) or abs(t) > 1e11:
        raise ValueError(f"t is {t!r}; it must be seconds since 1970 (not milliseconds)")
    return float(t)


def _payload(line: _Line) -> bytes:
    given = line.payload is not msgspec.UNSET
    if given == (line.payload_b64 is not None):
        raise ValueError("one of payload and payload_b64 must be given")
    if line.payload_b64 is not None:
        try:
            return base64.b64decode(line.payload_b64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"payload_b64 is not Base64: {error}") from None
    raw = bytes(line.payload)  # type: ignore[arg-type]
    if raw[:1] == b'"':
        return msgspec.json.decode(raw, type=str).encode()
    return raw
