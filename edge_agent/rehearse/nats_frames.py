"""The NATS protocol, bytes to frames and back, for both ends of a connection. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_LINE_BYTES: Final = 32 * 1024
MAX_FRAME_BYTES: Final = 8 * 1024 * 1024
CRLF: Final = b"\r\n"
_VERSION: Final = "NATS/1.0"


class BadFrame(ValueError):
    """Bytes that are not NATS; the connection must end."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One operation: its name in capitals, its arguments, and what follows them.

    `headers` is None where there are none; `status` is what stands behind the version in their first
    line, as "503".
    """

    op: str
    args: tuple[str, ...]
    body: bytes = b""
    headers: dict[str, str] | None = None
    status: str = ""
    raw_headers: bytes = field(default=b"", repr=False)


class FrameReader:
    """Bytes as they come to whole frames; raises BadFrame."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now, in order."""
        held = self._held
        held += data
        position = 0
        try:
            while True:
                end = held.find(CRLF, position)
                if end < 0:
                    if len(held) - position > MAX_LINE_BYTES:
                        raise BadFrame("a line without an end")
                    return
                op, _, rest = held[position:end].decode("utf-8", "replace").partition(" ")
                op, args = op.upper(), tuple(rest.split())
                start = end + len(CRLF)
                if op in ("INFO", "CONNECT", "-ERR"):
                    args = (rest.strip(),)
                size = _payload_size(op, args)
                if size is None:
                    yield Frame(op, args)
                    position = start
                    continue
                head, total = size
                if start + total + len(CRLF) > len(held):
                    return
                payload = bytes(held[start : start + total])
                position = start + total + len(CRLF)
                yield _message(op, args, payload, head)
        finally:
            del held[:position]


def _payload_size(op: str, args: tuple[str, ...]) -> tuple[int, int] | None:
    """Bytes of headers, and of headers and body together; None for an operation that has neither."""
    if op not in ("PUB", "HPUB", "MSG", "HMSG"):
        return None
    wanted = 2 if op.startswith("H") else 1
    numbers = args[-wanted:]
    if len(args) <= wanted or not all(number.isdecimal() for number in numbers):
        raise BadFrame(f"{op} without a subject or a size")
    head, total = (int(numbers[0]) if wanted == 2 else 0), int(numbers[-1])
    if head > total or total > MAX_FRAME_BYTES:
        raise BadFrame(f"{op} of {total} bytes")
    return head, total


def _message(op: str, args: tuple[str, ...], payload: bytes, head: int) -> Frame:
    plain = args[: -2 if op.startswith("H") else -1]
    op = op.removeprefix("H")
    if not head:
        return Frame(op, plain, payload)
    headers, status = read_headers(payload[:head])
    return Frame(op, plain, payload[head:], headers, status, payload[:head])


def read_headers(block: bytes) -> tuple[dict[str, str], str]:
    """The headers of a block, and its status; raises BadFrame."""
    first, *lines = block.decode("utf-8", "replace").split("\r\n")
    if not first.startswith(_VERSION):
        raise BadFrame("headers that do not begin with their version")
    headers: dict[str, str] = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon:
            raise BadFrame(f"a header without a colon: {line[:40]!r}")
        headers[name.strip()] = value.strip()
    return headers, first.removeprefix(_VERSION).strip().partition(" ")[0]


def header_block(headers: Mapping[str, str], *, status: str = "") -> bytes:
    """The bytes of a block of headers."""
    lines = [f"{_VERSION} {status}".strip(), *(f"{name}: {each}" for name, each in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def message_frame(op: str, args: tuple[str, ...], body: bytes, headers: bytes = b"") -> bytes:
    """A PUB or MSG (with an H where there are headers)."""
    words = " ".join(filter(None, args))
    if headers:
        line = f"H{op} {words} {len(headers)} {len(headers) + len(body)}\r\n"
        return line.encode() + headers + body + CRLF
    return f"{op} {words} {len(body)}\r\n".encode() + body + CRLF


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject is one that a pattern with `*` and `>` means."""
    wanted, levels = pattern.split("."), subject.split(".")
    for position, level in enumerate(wanted):
        if level == ">":
            return position < len(levels)
        if position >= len(levels) or level not in ("*", levels[position]):
            return False
    return len(wanted) == len(levels)
