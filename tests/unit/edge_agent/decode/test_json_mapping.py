import contextlib
import math
import time

import pytest

from contract.status import Fault
from edge_agent.decode.json_mapping import JsonMapping
from edge_agent.decode.rows import Reject, Rows

MAPPING = JsonMapping({"flow": "flow", "temp": "temp"})


def decoded(payload: bytes, mapping: JsonMapping = MAPPING) -> Rows:
    rows = Rows()
    assert mapping.decode(payload, rows) == 1
    return rows


def rejected(payload: bytes, mapping: JsonMapping = MAPPING) -> Fault:
    rows = Rows()
    with pytest.raises(Reject) as caught:
        mapping.decode(payload, rows)
    assert rows == Rows(), "a rejected message leaves nothing behind"
    assert str(caught.value)
    return caught.value.fault


def test_a_plain_object_becomes_one_row_in_the_order_of_the_channels():
    rows = decoded(b'{"temp": 20.5, "extra": [1, {"x": 2}], "flow": 3}')
    assert rows.values == [3.0, 20.5]
    assert rows.faults == []
    assert math.isnan(rows.times[0])


def test_rows_of_several_messages_stand_one_after_the_other():
    rows = Rows()
    MAPPING.decode(b'{"flow": 1, "temp": 2, "ts": 1796000000}', rows)
    MAPPING.decode(b'{"flow": 3, "temp": "x", "ts": "1796000001"}', rows)
    assert rows.values[:3] == [1.0, 2.0, 3.0]
    assert rows.times == [1796000000.0, 1796000001.0]
    assert [(row, channel, fault) for row, channel, fault, _ in rows.faults] == [
        (1, 1, Fault.WRONG_TYPE)
    ]


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (b"", Fault.BAD_JSON),
        (b"{", Fault.BAD_JSON),
        (b'{"flow": 1,}', Fault.BAD_JSON),
        (b'{"flow": 1}{"flow": 2}', Fault.BAD_JSON),
        (b'{"flow": 01}', Fault.BAD_JSON),
        (b"not json", Fault.BAD_JSON),
        (b'{"flow": "\x01"}', Fault.BAD_JSON),
        (b'{"flow": 1, "note": "\\q"}', Fault.BAD_JSON),
        (b'{\x00"\x00f\x00', Fault.BAD_JSON),
        ('{"flow": 1}'.encode("utf-16"), Fault.BAD_TEXT),
        (b'{"flow": 1, "temp": 2, "note": "\xff"}', Fault.BAD_TEXT),
        (b'{"flow": 1, "temp": 2, "\xc3\x28": 1}', Fault.BAD_TEXT),
        (b'{"flow": 1, "temp": 2, "note": "\xed\xa0\x80"}', Fault.BAD_TEXT),
        (b"[" * 10_000, Fault.TOO_DEEP),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, Fault.TOO_DEEP),
        (b'{"flow": 1, "temp": 2, "x": ' + b"[" * 20 + b"]" * 20 + b"}", Fault.TOO_DEEP),
        (b"21.5", Fault.WRONG_TYPE),
        (b'"ON"', Fault.WRONG_TYPE),
        (b"null", Fault.WRONG_TYPE),
        (b"true", Fault.WRONG_TYPE),
        (b"[]", Fault.NO_VALUES),
        (b"{}", Fault.NO_VALUES),
        (b'{"flow": null}', Fault.NO_VALUES),
        (b'{"flow": "unavailable", "temp": " NaN "}', Fault.NO_VALUES),
        (b'{"flow": true, "temp": false}', Fault.WRONG_TYPE),
        (b'{"flow": "12 l/s", "temp": {}}', Fault.WRONG_TYPE),
        (b'{"flow": NaN, "temp": Infinity}', Fault.NOT_A_NUMBER),
        (b'{"flow": 1e400, "temp": -Infinity}', Fault.NOT_A_NUMBER),
        (b'{"flow": 1e15001, "temp": ' + b"9" * 4300 + b"}", Fault.NOT_A_NUMBER),
    ],
)
def test_what_is_no_reading_is_rejected_with_its_reason(payload: bytes, fault: Fault):
    assert rejected(payload) == fault


@pytest.mark.parametrize(
    ("payload", "flow"),
    [
        (b'{"flow": 1, "flow": 2, "temp": 0}', 2.0),
        (b'\xef\xbb\xbf{"flow": 5, "temp": 0}', 5.0),
        (b'{"flow": 5, "temp": 0}\x00\x00\n', 5.0),
        (b'{"flow": 5, "temp": 0, "note": "\\ud800"}', 5.0),
        (b'{"flow": 5, "temp": 0, "n": ' + b"9" * 4300 + b"}", 5.0),
        (b'{"flow": 5, "temp": 0, "n": ' + b"9" * 5000 + b"}", 5.0),
        (b'\xef\xbb\xbf{"flow": 5, "temp": 0, "n": ' + b"9" * 5000 + b"}", 5.0),
        (b'{"flow": 5, "temp": 0, "n": 1e400, "m": NaN}', 5.0),
        (b'{"flow": "5.5", "temp": 0}', 5.5),
        (b'{"flow": " +5.5e0 ", "temp": 0}', 5.5),
        ('{"flow": 5, "temp": 0, "ort": "Gießen \\u00e9"}'.encode(), 5.0),
        (b'{"fl\\u006fw": 5, "temp": 0}', 5.0),
        (b'{"flow": -0.0, "temp": 0}', 0.0),
        (b'{"flow": 1e15, "temp": 0}', 1e15),
    ],
)
def test_odd_but_honest_payloads_are_read(payload: bytes, flow: float):
    assert decoded(payload).values == [flow, 0.0]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("null", Fault.MISSING),
        ('"unknown"', Fault.MISSING),
        ('"N/A"', Fault.MISSING),
        ('""', Fault.MISSING),
        ('"---"', Fault.MISSING),
        ('"-inf"', Fault.MISSING),
        ("NaN", Fault.NOT_A_NUMBER),
        ("-Infinity", Fault.NOT_A_NUMBER),
        ("1e400", Fault.NOT_A_NUMBER),
        ("1.1e15", Fault.NOT_A_NUMBER),
        ("-2e15", Fault.NOT_A_NUMBER),
        ("9" * 4300, Fault.NOT_A_NUMBER),
        ("9" * 5000, Fault.NOT_A_NUMBER),
        ('"1e999"', Fault.NOT_A_NUMBER),
        ("true", Fault.WRONG_TYPE),
        ('"ON"', Fault.WRONG_TYPE),
        ('"0x1F"', Fault.WRONG_TYPE),
        ('"1_000"', Fault.WRONG_TYPE),
        ('"21,5"', Fault.WRONG_TYPE),
        ('"\\ud800"', Fault.WRONG_TYPE),
        ('"' + "1" * 100 + '"', Fault.WRONG_TYPE),
        ("[1]", Fault.WRONG_TYPE),
        ("{}", Fault.WRONG_TYPE),
    ],
)
def test_a_bad_channel_is_named_and_its_neighbour_is_kept(given: str, fault: Fault):
    rows = decoded(f'{{"flow": {given}, "temp": 20}}'.encode())
    assert math.isnan(rows.values[0])
    assert rows.values[1] == 20.0
    ((row, channel, found, detail),) = rows.faults
    assert (row, channel, found) == (0, 0, fault)
    assert detail.startswith("flow: ")
    detail.encode()  # can be logged and sent, whatever came in


def test_nested_paths_list_indices_and_quoted_keys_are_followed():
    mapping = JsonMapping(
        {
            "a": "params.sys.up",
            "b": 'params."temperature:0".tC',
            "c": "list[1].x",
            "d": "list[-1].x",
        }
    )
    payload = b'{"params": {"sys": {"up": 1}, "temperature:0": {"tC": 2}}, "list": [{}, {"x": 3}, {"x": 4}]}'
    assert decoded(payload, mapping).values == [1.0, 2.0, 3.0, 4.0]


def test_a_top_level_list_is_read_where_the_path_says_so():
    assert decoded(b"[5, 6]", JsonMapping({"first": "[0]"})).values == [5.0]


@pytest.mark.parametrize("key", ['quo"te', "back\\slash", "tab\t", "dot.dot", "colon:0", "größe"])
def test_a_key_with_any_character_can_be_mapped(key: str):
    quoted = key.replace("\\", "\\\\").replace('"', '\\"')
    mapping = JsonMapping({"x": f'"{quoted}"', "y": "y"})
    written = key.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    assert decoded(f'{{"{written}": 4, "y": 1}}'.encode(), mapping).values == [4.0, 1.0]


def test_a_path_that_runs_through_another_is_told_apart():
    mapping = JsonMapping({"a": "x", "b": "x.y"})
    assert decoded(b'{"x": 3}', mapping).values[0] == 3.0
    assert decoded(b'{"x": {"y": 4}}', mapping).values[1] == 4.0


def test_two_channels_may_read_the_same_place():
    assert decoded(b'{"x": 3}', JsonMapping({"a": "x", "b": "x"})).values == [3.0, 3.0]


@pytest.mark.parametrize("path", ["", ".a", "a..b", "a[", "a[x]", 'a"b', "a[99999999]", 'a."b'])
def test_a_path_that_is_none_is_refused_with_its_text(path: str):
    with pytest.raises(ValueError, match="path"):
        JsonMapping({"x": path})


def test_the_time_is_found_under_usual_keys_the_most_usual_first():
    rows = decoded(b'{"flow": 1, "temp": 2, "t": 5, "ts": 1796000000, "timestamp": null}')
    assert rows.times == [1796000000.0]


def test_a_key_that_is_a_channel_is_no_time():
    mapping = JsonMapping({"t": "t"})
    for payload in (b'{"t": 21.5}', b'{"t": "21.5"}'):
        rows = decoded(payload, mapping)
        assert rows.values == [21.5]
        assert math.isnan(rows.times[0])


def test_a_key_that_holds_a_channel_is_no_time():
    rows = decoded(
        b'{"data": {"x": 1}, "time": {"now": 4}}', JsonMapping({"x": "data.x", "y": "time.now"})
    )
    assert rows.values == [1.0, 4.0]
    assert rows.time_faults == []


def test_a_declared_time_path_is_the_only_one():
    mapping = JsonMapping({"x": "x"}, time_path="meta.at")
    assert decoded(b'{"x": 1, "ts": 5, "meta": {"at": 1796000000}}', mapping).times == [
        1796000000.0
    ]
    assert math.isnan(decoded(b'{"x": 1, "ts": 5}', mapping).times[0])


def test_a_declared_time_path_may_also_be_a_channel():
    mapping = JsonMapping({"at": "at", "x": "x"}, time_path="at")
    assert decoded(b'{"x": 1, "at": 1796000000}', mapping).times == [1796000000.0]
    assert decoded(b'{"x": "1", "at": 1796000000}', mapping).times == [1796000000.0]


@pytest.mark.parametrize("given", ['"soon"', "true", "[]", "{}", "1e400", "NaN"])
def test_a_time_that_is_none_is_noted_and_the_values_are_kept(given: str):
    rows = decoded(f'{{"flow": 1, "temp": 2, "time": {given}}}'.encode())
    assert rows.values == [1.0, 2.0]
    assert math.isnan(rows.times[0])
    assert [row for row, _ in rows.time_faults] == [0]


def test_the_depth_limit_is_exact():
    mapping = JsonMapping({"x": "x"}, max_depth=4)
    assert decoded(b'{"x": 1, "y": [[[]]]}', mapping).values == [1.0]
    assert rejected(b'{"x": 1, "y": [[[[]]]]}', mapping) == Fault.TOO_DEEP
    assert decoded(b'{"x": 1, "y": [[], [], [], [], [], []]}', mapping).values == [1.0]
    assert decoded(b'{"x": 1, "y": "[[[[[[[[[["}', mapping).values == [1.0]


@pytest.mark.parametrize(
    "payload",
    [
        b'\\"' * 32_768,
        b'"' + b'\\"' * 32_767 + b"\\",
        b'{"flow": ' + b"[" * 65_000,
        b'{"flow": "' + b"\\\\" * 32_000,
        b"9" * 65_536,
        b'{"flow": [' + b"9" * 4300 + (b"," + b"9" * 4300) * 14 + b"]}",
        b'{"flow": ' + b"-" * 65_000,
        b'{"a":{},' * 8_000,
        b'{"flow": "1' + b"0" * 65_000 + b'"}',
        b'{"flow": 1, "temp": 1, "time": "2026-11-30T08:15:02' + b" " * 65_000 + b'x"}',
    ],
)
def test_a_hostile_payload_costs_little(payload: bytes):
    begin = time.thread_time()
    with contextlib.suppress(Reject):
        MAPPING.decode(payload, Rows())
    assert time.thread_time() - begin < 0.1
