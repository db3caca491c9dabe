import inspect

import msgspec
import pytest

from contract import messages
from contract.encoding import MAX_MESSAGE_BYTES, decode, encode
from contract.status import Lane, Reason, RowClass, Status, Tier
from tests.golden.samples import FOLDER, SAMPLES, kind_of, sample_file

WIRE = {
    name
    for name, kind in inspect.getmembers(messages, inspect.isclass)
    if issubclass(kind, msgspec.Struct) and kind.__module__ == messages.__name__
}


def test_every_wire_message_has_a_frozen_sample():
    assert {kind_of(name) for name in SAMPLES} == WIRE
    assert {path.stem for path in FOLDER.glob("*.msgpack")} == set(SAMPLES)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_frozen_message_is_still_read_as_it_was_meant(name):
    assert decode(sample_file(name).read_bytes(), type(SAMPLES[name])) == SAMPLES[name]


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_message_of_today_survives_its_bytes(name):
    body = encode(SAMPLES[name])
    assert len(body) < MAX_MESSAGE_BYTES
    assert decode(body, type(SAMPLES[name])) == SAMPLES[name]


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_fields_from_the_future_are_ignored(name):
    content = msgspec.msgpack.decode(sample_file(name).read_bytes())
    if isinstance(content, list):
        content += [{"from": "the future"}, 1]
    else:
        content = {"aaa": 1, **content, "from_the_future": {"x": [1, 2]}, "zzz": None}
    assert decode(msgspec.msgpack.encode(content), type(SAMPLES[name])) == SAMPLES[name]


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_field_with_a_default_may_be_absent(name):
    sample = SAMPLES[name]
    kind = type(sample)
    content = msgspec.msgpack.decode(sample_file(name).read_bytes())
    optional = [field for field in msgspec.structs.fields(kind) if not field.required]
    for field in optional:
        content.pop(field.encode_name, None)
    found = decode(msgspec.msgpack.encode(content), kind)
    for field in optional:
        default = {} if field.default is msgspec.NODEFAULT else field.default
        assert getattr(found, field.name) == default


def test_the_closed_lists_still_hold_what_was_stored():
    """A value that left its list would make rows of the field unreadable."""
    assert {str(lane) for lane in Lane} >= {"evt", "bulk", "tel"}
    assert {str(kind) for kind in RowClass} >= {
        "alarm",
        "verdict",
        "revision",
        "gap",
        "escalation",
        "rollup",
        "raw",
    }
    assert {str(tier) for tier in Tier} >= {"hub", "model", "baseline", "rule", "last_known"}
    assert {str(status) for status in Status} >= {"OK", "BUSY", "EXPIRED", "CANCELLED", "BAD_INPUT"}
    assert {str(reason) for reason in Reason} >= {"uncertain", "hub_timeout", "restarted"}
