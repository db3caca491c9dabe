import contextlib
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.encoding import (
    IDENTITY,
    MAX_BODY_BYTES,
    MAX_RATIO,
    ZLIB,
    EncodingError,
    compress,
    decode,
    encode,
    expand,
)
from contract.messages import Gap, HubLoad, InferAnswer, RowMessage
from contract.status import Lane

GAP = Gap(Lane.TEL, 1, 9, 2, 512, "quota")


def test_a_message_survives_its_bytes():
    assert decode(encode(GAP), Gap) == GAP
    assert decode(memoryview(encode(GAP)), Gap) == GAP


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x00",
        b"\x80",
        encode(GAP)[:-1],
        encode(GAP) + b"\x00",
        encode(HubLoad(1, 2.0)),
        encode(GAP).replace(b"tel", b"tal"),
        b"\x81\xa6reason\xa1\xff",
        b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
    ],
    ids=lambda body: body[:6].hex() + f"+{len(body)}",
)
def test_what_is_no_such_message_is_an_encoding_error(body):
    with pytest.raises(EncodingError, match="not a Gap"):
        decode(body, Gap)


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_an_encoding_error(body):
    for kind in (Gap, InferAnswer, RowMessage):
        with contextlib.suppress(EncodingError):
            decode(body, kind)


def test_a_body_over_the_limit_is_not_read():
    body = encode(InferAnswer("m", 1, error="x" * 1000))
    with pytest.raises(EncodingError, match="over the limit of 500"):
        decode(body, InferAnswer, max_bytes=500)
    with pytest.raises(EncodingError, match="over the limit of 500"):
        expand(body, IDENTITY, max_bytes=500)


@given(st.binary(max_size=2000) | st.text("ab", max_size=3000).map(str.encode))
def test_compression_gives_back_the_body_whatever_it_is(body):
    packed, encoding = compress(body)
    assert len(packed) <= len(body)
    assert expand(packed, encoding) == body


def test_a_body_that_would_grow_too_much_is_sent_as_it_is():
    body = b"\0" * 100_000
    assert compress(body) == (body, IDENTITY)
    assert compress(b"readings " * 20)[1] == ZLIB


def test_no_encoding_means_identity():
    assert expand(b"x", "") == b"x"


@pytest.mark.parametrize("encoding", ["zstd", "gzip", "ZLIB", "zlib "])
def test_an_unknown_encoding_is_named(encoding):
    with pytest.raises(EncodingError, match=f"unknown content encoding '{encoding}'"):
        expand(b"x", encoding)


@pytest.mark.parametrize(
    "body", [b"", b"x", zlib.compress(b"abc")[:-1], zlib.compress(b"abc" * 99)[:9], b"\x78\x9c"]
)
def test_a_torn_body_is_an_encoding_error(body):
    with pytest.raises(EncodingError):
        expand(body, ZLIB)


def test_a_bomb_is_refused_before_it_grows():
    bomb = zlib.compress(b"\0" * 50_000_000, 9)
    tracemalloc.start()
    try:
        with pytest.raises(EncodingError, match="grows beyond"):
            expand(bomb, ZLIB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * MAX_BODY_BYTES
    with pytest.raises(EncodingError, match=f"grows beyond {len(bomb) * MAX_RATIO} bytes"):
        expand(bomb, ZLIB)
