"""Messages to bytes and back, with a cap on every size.

Bodies are MessagePack. A body may be compressed with zlib; what it may grow to is bounded before a
byte is inflated, so that a small message cannot claim a large memory.
"""

from __future__ import annotations

import zlib
from typing import Final, TypeVar

import msgspec

MAX_MESSAGE_BYTES: Final = 240 * 1024
"""Headers and body of a message from a device; the server's `max_payload` is 256 KiB."""
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
"""What a compressed body may grow to."""
MAX_RATIO: Final = 20
"""How many times its size a compressed body may grow."""
MAX_READINGS_PER_ROW: Final = 256

IDENTITY: Final = "identity"
ZLIB: Final = "zlib"

T = TypeVar("T")
_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type, msgspec.msgpack.Decoder[object]] = {}


class EncodingError(ValueError):
    """A body that cannot be read: too large, torn, of an unknown encoding, or of another shape."""


def encode(message: msgspec.Struct) -> bytes:
    """The MessagePack bytes of a message."""
    return _encoder.encode(message)


def decode(body: bytes | memoryview, kind: type[T], *, max_bytes: int = MAX_BODY_BYTES) -> T:
    """The message of type `kind` in `body`.

    Raises EncodingError when it is larger than `max_bytes`, or is not such a message.
    """
    if len(body) > max_bytes:
        raise EncodingError(f"a body of {len(body)} bytes is over the limit of {max_bytes}")
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        return decoder.decode(body)  # type: ignore[return-value]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise EncodingError(f"not a {kind.__name__}: {error}") from error


def compress(body: bytes) -> tuple[bytes, str]:
    """The smaller of `body` and its zlib form, and the name of the encoding that was chosen.

    A body that would grow more than the reader allows stays as it is.
    """
    packed = zlib.compress(body, 1)
    if len(packed) < len(body) and len(body) <= len(packed) * MAX_RATIO:
        return packed, ZLIB
    return body, IDENTITY


def expand(body: bytes, encoding: str, *, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The plain body; never allocates more than `max_bytes` or `MAX_RATIO` times the input.

    Raises EncodingError for an unknown encoding, a torn stream, or one that grows too large.
    """
    if encoding in ("", IDENTITY):
        if len(body) > max_bytes:
            raise EncodingError(f"a body of {len(body)} bytes is over the limit of {max_bytes}")
        return body
    if encoding != ZLIB:
        raise EncodingError(f"unknown content encoding {encoding!r}; known: {IDENTITY}, {ZLIB}")
    limit = min(max_bytes, len(body) * MAX_RATIO)
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise EncodingError(f"not a zlib body: {error}") from error
    if len(plain) > limit:
        raise EncodingError(f"a compressed body grows beyond {limit} bytes")
    if not inflater.eof:
        raise EncodingError("a compressed body is torn")
    return plain
