import json
import math

from hypothesis import example, given
from hypothesis import strategies as st

from edge_agent.decode.json_mapping import JsonMapping
from edge_agent.decode.rows import Reject, Rows

KEYS = st.sampled_from(["flow", "t", "time", "ts", "a", "b", "x", "data", "größe", 'q"q'])
NUMBERS = st.one_of(
    st.floats(),
    st.integers(),
    st.integers(min_value=10**8, max_value=10**19),
    st.sampled_from([0, -0.0, 1e15, -1e15, 1.0000000000000001e15, 1e400, 2**63, 2**64, 2**53 + 1]),
)
LEAVES = st.one_of(
    NUMBERS,
    st.none(),
    st.booleans(),
    st.text(max_size=8),
    NUMBERS.map(str),
    st.sampled_from(["unavailable", "NaN", "2026-11-30T08:15:02.5Z", "\ud800", "[[{"]),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=20,
)
PATHS = st.sampled_from(["flow", "t", "ts", "a", "a.b", "a.x", "data.a.b", "time.x", '"q\\"q"'])
MAPPINGS = st.builds(
    JsonMapping,
    st.dictionaries(st.sampled_from("cdef"), PATHS, min_size=1, max_size=3),
    time_path=st.none() | st.sampled_from(["ts", "a.t", "flow", "data"]),
)


def outcome(decode, payload: bytes) -> object:
    rows = Rows()
    try:
        assert decode(payload, rows) == 1
    except Reject as reason:
        assert rows == Rows()
        return reason.fault, str(reason)
    columns = [repr(rows.times), repr(rows.values)]  # repr: NaN equals NaN, -0.0 is not 0.0
    return columns, rows.faults, rows.time_faults


def text_of(content: object) -> bytes:
    written = json.dumps(content, ensure_ascii=False)
    return written.encode("utf-8", "surrogatepass")


@given(MAPPINGS, st.dictionaries(KEYS, LEAVES | JSON, max_size=8) | JSON)
@example(JsonMapping({"c": "flow"}), {"flow": 1, "ts": 1796026502123456789})
@example(JsonMapping({"c": "t"}), {"t": 21.5})
@example(JsonMapping({"c": "flow"}), {"flow": 1, "x": 10**4000})
def test_the_typed_and_the_tolerant_way_give_the_same_readings(mapping, content):
    payload = text_of(content)
    assert outcome(mapping.decode, payload) == outcome(mapping._tolerant, payload)


@given(MAPPINGS, st.binary(max_size=200))
def test_no_bytes_raise_anything_but_reject(mapping, payload):
    outcome(mapping.decode, payload)


@given(MAPPINGS, JSON, st.data())
def test_damaged_json_raises_nothing_but_reject_and_both_ways_agree(mapping, content, data):
    payload = bytearray(text_of(content))
    for _ in range(data.draw(st.integers(1, 3))):
        if payload:
            place = data.draw(st.integers(0, len(payload) - 1))
            payload[place : place + 1] = data.draw(st.binary(max_size=2))
    found = outcome(mapping.decode, bytes(payload))
    assert found == outcome(mapping._tolerant, bytes(payload))


@given(st.lists(st.floats(-1e15, 1e15), min_size=2, max_size=2))
def test_a_number_is_read_to_the_last_bit(values):
    rows = Rows()
    JsonMapping({"a": "a", "b": "b"}).decode(
        json.dumps(dict(zip("ab", values, strict=False))).encode(), rows
    )
    assert rows.values == values
    assert [math.copysign(1, v) for v in rows.values] == [math.copysign(1, v) for v in values]
