import inspect

import msgspec
import pytest

from contract import messages
from contract.encoding import EncodingError, decode, encode
from contract.messages import RowMessage, VerdictEvent
from tests.golden.samples import SAMPLES

KINDS = [
    kind
    for _, kind in inspect.getmembers(messages, inspect.isclass)
    if issubclass(kind, msgspec.Struct) and kind.__module__ == messages.__name__
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_is_frozen_and_says_what_it_is(kind):
    assert kind.__struct_config__.frozen
    assert kind.__doc__
    assert not kind.__struct_config__.forbid_unknown_fields


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_message_without_a_needed_field_is_refused(name):
    kind = type(SAMPLES[name])
    needed = [f.encode_name for f in msgspec.structs.fields(kind) if f.required]
    content = msgspec.msgpack.decode(encode(SAMPLES[name]))
    if isinstance(content, list):
        content.pop()
    else:
        del content[needed[-1]]
    with pytest.raises(EncodingError):
        decode(msgspec.msgpack.encode(content), kind)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_field_of_another_type_is_refused(name):
    kind = type(SAMPLES[name])
    content = msgspec.msgpack.decode(encode(SAMPLES[name]))
    places = range(len(content)) if isinstance(content, list) else list(content)
    for place in places:
        damaged = content.copy()
        damaged[place] = {1: [None]}
        with pytest.raises(EncodingError):
            decode(msgspec.msgpack.encode(damaged), kind)


def test_a_tier_that_does_not_exist_is_refused():
    content = msgspec.msgpack.decode(encode(SAMPLES["VerdictEvent"]))
    with pytest.raises(EncodingError, match="tier"):
        decode(msgspec.msgpack.encode(content | {"tier": "oracle"}), VerdictEvent)


def test_rows_keep_their_order_and_their_bytes():
    message = SAMPLES["RowMessage"]
    assert isinstance(message, RowMessage)
    many = msgspec.structs.replace(message, rows=message.rows * 50)
    assert decode(encode(many), RowMessage).rows == many.rows
