"""MQTT 3.1.1 packets to values and back, as far as the stand-in broker speaks it. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_PACKET_BYTES: Final = 8 * 1024 * 1024

CONNECT, CONNACK, PUBLISH, PUBACK = 1, 2, 3, 4
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK = 8, 9, 10, 11
PINGREQ, PINGRESP, DISCONNECT = 12, 13, 14
_U16: Final = struct.Struct("!H")


class BadPacket(ValueError):
    """Bytes that are not MQTT 3.1.1 as the stand-in knows it; the connection must end."""


@dataclass(frozen=True, slots=True)
class Message:
    """One publish."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a CONNECT says."""

    client_id: str
    level: int
    clean: bool
    keepalive_s: int
    will: Message | None


class Splitter:
    """Bytes as they come to (kind, flags, body) of whole packets; raises BadPacket."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """The packets that are complete now, in order."""
        held = self._held
        held += data
        position = 0
        try:
            while (found := _length(held, position)) is not None:
                start, size = found
                if size > MAX_PACKET_BYTES:
                    raise BadPacket(f"a packet of {size} bytes")
                if start + size > len(held):
                    break
                yield held[position] >> 4, held[position] & 15, bytes(held[start : start + size])
                position = start + size
        finally:
            del held[:position]


def _length(held: bytearray, position: int) -> tuple[int, int] | None:
    """Where the body of the packet at `position` begins, and its size; None while that is unknown."""
    size = 0
    for index in range(4):
        at = position + 1 + index
        if at >= len(held):
            return None
        size |= (held[at] & 127) << (7 * index)
        if not held[at] & 128:
            return at + 1, size
    raise BadPacket("a length of more than four bytes")


def frame(kind: int, flags: int, body: bytes) -> bytes:
    """One packet."""
    head = bytearray([kind << 4 | flags])
    size = len(body)
    while True:
        size, digit = divmod(size, 128)
        head.append(digit | (128 if size else 0))
        if not size:
            return bytes(head) + body


def read_connect(body: bytes) -> Greeting:
    """A CONNECT; raises BadPacket."""
    name, at = _text(body, 0)
    if name not in ("MQTT", "MQIsdp") or at + 4 > len(body):
        raise BadPacket(f"a CONNECT of protocol {name!r}")
    level, flags = body[at], body[at + 1]
    keepalive_s = _U16.unpack_from(body, at + 2)[0]
    if level != 4:  # what follows may be laid out otherwise
        return Greeting("", level, clean=True, keepalive_s=keepalive_s, will=None)
    client_id, at = _text(body, at + 4)
    will = None
    if flags & 4:
        topic, at = _text(body, at)
        payload, at = _blob(body, at)
        will = Message(topic, payload, min(flags >> 3 & 3, 1), retain=bool(flags & 32))
    return Greeting(client_id, level, bool(flags & 2), keepalive_s, will)


def read_publish(flags: int, body: bytes) -> tuple[Message, int]:
    """A PUBLISH and its packet id, 0 at QoS 0; raises BadPacket, also for QoS 2."""
    qos = flags >> 1 & 3
    if qos > 1:
        raise BadPacket("a publish at QoS 2, which the stand-in does not speak")
    topic, at = _text(body, 0)
    mid = 0
    if qos:
        mid, at = read_id(body, at), at + 2
    if not topic or "+" in topic or "#" in topic:
        raise BadPacket(f"a publish to {topic[:40]!r}")
    return Message(topic, body[at:], qos, retain=bool(flags & 1)), mid


def read_filters(body: bytes, *, with_qos: bool) -> tuple[int, list[tuple[str, int]]]:
    """The packet id and the filters of a SUBSCRIBE, or of an UNSUBSCRIBE (all with QoS 0)."""
    mid, at = read_id(body, 0), 2
    filters: list[tuple[str, int]] = []
    while at < len(body):
        pattern, at = _text(body, at)
        qos = 0
        if with_qos:
            if at >= len(body):
                raise BadPacket("a filter without its QoS")
            qos, at = body[at] & 3, at + 1
        filters.append((pattern, min(qos, 1)))
    return mid, filters


def read_id(body: bytes, at: int) -> int:
    """The packet id at an offset; raises BadPacket."""
    if at + 2 > len(body):
        raise BadPacket("a packet that ends before its id")
    return int(_U16.unpack_from(body, at)[0])


def publish(message: Message, *, mid: int = 0, dup: bool = False) -> bytes:
    """The PUBLISH of a message."""
    topic = message.topic.encode()
    flags = (8 if dup else 0) | message.qos << 1 | (1 if message.retain else 0)
    number = _U16.pack(mid) if message.qos else b""
    return frame(PUBLISH, flags, _U16.pack(len(topic)) + topic + number + message.payload)


def with_id(kind: int, mid: int, rest: bytes = b"") -> bytes:
    """An acknowledgement: a packet that is an id and, for SUBACK, one byte a filter."""
    return frame(kind, 0, _U16.pack(mid) + rest)


def _blob(body: bytes, at: int) -> tuple[bytes, int]:
    if at + 2 > len(body):
        raise BadPacket("a packet that ends within a length")
    end = at + 2 + _U16.unpack_from(body, at)[0]
    if end > len(body):
        raise BadPacket("a packet that ends within a field")
    return body[at + 2 : end], end


def _text(body: bytes, at: int) -> tuple[str, int]:
    blob, end = _blob(body, at)
    try:
        return blob.decode(), end
    except UnicodeDecodeError as error:
        raise BadPacket("a text that is not UTF-8") from error
