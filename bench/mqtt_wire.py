"""The few bytes of MQTT 3.1.1 that a bystander or a load generator needs; no client library.

Everything is QoS 0 and the keepalive is off: what is measured is the other side, not a library.
"""

import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

_CONNACK, _SUBACK = 0x20, 0x90
_RECEIVE_BYTES = 1 << 18
_TIMEOUT_S = 10.0


class Published(NamedTuple):
    """One message as it arrived."""

    topic: str
    payload: bytes


class WireError(RuntimeError):
    """The broker refused us, or hung up."""


def packet(kind: int, body: bytes) -> bytes:
    """One packet with its length in front."""
    length, digits = len(body), bytearray()
    while True:
        length, digit = divmod(length, 128)
        digits.append(digit | (0x80 if length else 0))
        if not length:
            return bytes([kind]) + bytes(digits) + body


def connect_packet(client_id: str) -> bytes:
    """A CONNECT with a clean session and no keepalive."""
    return packet(0x10, _text("MQTT") + b"\x04\x02\x00\x00" + _text(client_id))


def subscribe_packet(filters: Sequence[str]) -> bytes:
    """A SUBSCRIBE at QoS 0."""
    return packet(0x82, b"\x00\x01" + b"".join(_text(each) + b"\x00" for each in filters))


def publish_packet(topic: str, payload: bytes) -> bytes:
    """A PUBLISH at QoS 0."""
    return packet(0x30, _text(topic) + payload)


class Unpacker:
    """Bytes in, in pieces of any size; whole packets out, in order."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The packets that are complete now: kind and body."""
        buffer = self._rest + data if self._rest else data
        packets: list[tuple[int, bytes]] = []
        begin, end = 0, len(buffer)
        while begin + 2 <= end:
            length = shift = 0
            at = begin + 1
            while at < end:
                digit = buffer[at]
                at += 1
                length |= (digit & 0x7F) << shift
                shift += 7
                if digit < 0x80:
                    break
            else:
                break
            if at + length > end:
                break
            packets.append((buffer[begin], buffer[at : at + length]))
            begin = at + length
        self._rest = buffer[begin:]
        return packets


def read_publish(kind: int, body: bytes) -> Published | None:
    """The message in a packet, or None when it is of another kind."""
    if kind & 0xF0 != 0x30:
        return None
    size = body[0] << 8 | body[1]
    skip = 2 if kind & 0x06 else 0
    return Published(body[2 : 2 + size].decode(), body[2 + size + skip :])


class WireClient:
    """A blocking client on one socket; one thread may send while another receives."""

    def __init__(
        self, host: str, port: int, *, client_id: str, filters: Sequence[str] = ()
    ) -> None:
        """Connects and subscribes; raises WireError when the broker says no."""
        self._unpacker = Unpacker()
        self._socket = socket.create_connection((host, port), timeout=_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._early: list[Published] = []
        self._socket.sendall(connect_packet(client_id))
        self._expect(_CONNACK)
        if filters:
            self._socket.sendall(subscribe_packet(filters))
            self._expect(_SUBACK)

    def send(self, data: bytes) -> None:
        """Sends whole packets; blocks while the broker takes nothing."""
        self._socket.sendall(data)

    def receive(self, *, timeout_s: float) -> list[Published]:
        """The messages that have arrived; empty when none came in time. Raises WireError at the end."""
        if self._early:
            early, self._early = self._early, []
            return early
        self._socket.settimeout(timeout_s)
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except TimeoutError:
            return []
        except OSError as error:
            raise WireError(f"the broker's connection broke: {error}") from error
        if not data:
            raise WireError("the broker hung up")
        found = (read_publish(kind, body) for kind, body in self._unpacker.feed(data))
        return [each for each in found if each is not None]

    def close(self) -> None:
        """Hangs up; a thread in `receive` gets a WireError."""
        with suppress(OSError):  # the broker was faster
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _expect(self, wanted: int) -> None:
        while True:
            data = self._socket.recv(_RECEIVE_BYTES)
            if not data:
                raise WireError("the broker hung up instead of answering")
            answer = None
            for kind, body in self._unpacker.feed(data):
                if kind == wanted:
                    answer = body
                elif (message := read_publish(kind, body)) is not None:
                    self._early.append(message)
            if answer is not None:
                if (wanted == _CONNACK and answer[1]) or 0x80 in answer[2:]:
                    raise WireError(f"the broker refused us (code {answer[-1]})")
                return


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("!H", len(raw)) + raw
