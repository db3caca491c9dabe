"""One bad row or message is set aside with its reason; nothing else is harmed."""

import dataclasses
import math
import time

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_hub.ingest.decode import MAX_LETTERS, MAX_ROWS, decode_deliveries
from cloud_hub.store.apply import Batch
from cloud_hub.store.marks import Marks
from cloud_hub.types import Delivery
from contract import subjects
from contract.encoding import encode
from contract.messages import Gap, RawRow, Row, RowMessage
from contract.status import Lane, RowClass
from tests.unit.cloud_hub.sample_rows import (
    CLOCK,
    delivery,
    escalation_row,
    gap_row,
    raw_group,
    raw_row,
    verdict_row,
)

KEY = ("d1", "e1", "tel")


def _decode(*deliveries: Delivery, lane: Lane = Lane.TEL) -> Batch:
    return decode_deliveries(deliveries, lane, received_s=5.0)


def _reasons(batch: Batch) -> list[str]:
    return [letter["reason"] for letter in batch.dead_letters]


def test_a_raw_row_becomes_one_record_a_group_with_its_time_range():
    groups = (raw_group([5.0, 3.0, 4.0]), raw_group([9.0], stream="fan", first=3, channels=1))
    row = Row(1, RowClass.RAW, encode(RawRow(CLOCK, groups)))
    batch = _decode(delivery([row], Lane.TEL))
    assert [(r["stream"], r["first"], r["t_min"], r["t_max"]) for r in batch.telemetry] == [
        ("pump", 0, 3.0, 5.0),
        ("fan", 3, 9.0, 9.0),
    ]
    assert batch.rows == {KEY: {1: 4}}


def _bent(**fields) -> Row:
    group = msgspec.structs.replace(raw_group([1.0, 2.0]), **fields)
    return Row(2, RowClass.RAW, encode(RawRow(CLOCK, (group,))))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (_bent(values=b"123"), "do not hold"),
        (_bent(count=0), "needs readings"),
        (_bent(units=()), "one unit each"),
        (_bent(stream="x" * 300), "stream name"),
        (_bent(stream="a\x00b"), "NUL"),
        (_bent(first=256), "beyond the row"),
        (_bent(times=np.array([1.0, math.nan]).tobytes()), "not finite"),
        (Row(2, RowClass.RAW, b"\xc1"), "not a RawRow"),
        (Row(2, RowClass.RAW, encode(RawRow(CLOCK, ()))), "without readings"),
        (verdict_row(2), "does not travel in lane tel"),
    ],
)
def test_a_bad_row_is_set_aside_and_its_neighbours_are_kept(row, reason):
    batch = _decode(delivery([raw_row(1), row, raw_row(3)], Lane.TEL))
    assert sorted(batch.rows[KEY]) == [1, 3]
    assert batch.covered == {KEY: [(2, 2)]}
    assert reason in _reasons(batch)[0]
    assert batch.dead_letters[0]["body"] == row.body


def test_a_row_of_an_unknown_class_is_set_aside():
    strange = msgspec.msgpack.encode(
        {"epoch": "e1", "lane": "tel", "rows": [[1, "hologram", b""], [2, "raw", raw_row(2).body]]}
    )
    good = delivery([raw_row(1)], Lane.TEL)
    batch = _decode(Delivery(good.subject, {}, strange, good.acknowledge))
    assert sorted(batch.rows[KEY]) == [2]
    assert _reasons(batch) == ["unknown class of row 'hologram'"]


def test_an_unreadable_message_is_set_aside_with_the_rows_that_its_id_names():
    torn = delivery([raw_row(4), raw_row(5)], Lane.TEL)
    torn = Delivery(torn.subject, torn.headers, torn.body[:20], torn.acknowledge)
    batch = _decode(torn, delivery([raw_row(6)], Lane.TEL))
    assert batch.covered == {KEY: [(4, 5)]}
    assert batch.rows == {KEY: {6: 4}}
    assert (batch.dead_letters[0]["first"], batch.dead_letters[0]["last"]) == (4, 5)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({subjects.SCHEMA: "2"}, "schema '2'"),
        ({subjects.ENCODING: "brotli"}, "unknown content encoding"),
        ({subjects.MSG_ID: "d2:e1:tel:1-1"}, "names another device"),
    ],
)
def test_a_message_that_contradicts_its_headers_is_set_aside(headers, reason):
    good = delivery([raw_row(1)], Lane.TEL)
    bad = Delivery(good.subject, {**good.headers, **headers}, good.body, good.acknowledge)
    batch = _decode(bad)
    assert batch.rows == {}
    assert reason in _reasons(batch)[0]


def test_the_device_is_the_subjects_whatever_the_message_id_says():
    good = delivery([raw_row(1)], Lane.TEL)
    forged = Delivery("edge.v1.d9.tel", good.headers, good.body, good.acknowledge)
    batch = _decode(forged)
    assert (batch.rows, batch.covered) == ({}, {})
    assert batch.dead_letters[0]["device"] == "d9"


def test_rows_of_another_lane_are_set_aside():
    body = encode(RowMessage("e1", Lane.EVT, (verdict_row(1),)))
    good = delivery([raw_row(1)], Lane.TEL)
    batch = _decode(Delivery(good.subject, {}, body, good.acknowledge))
    assert "rows of 'evt'" in _reasons(batch)[0]


def test_gaps_cover_rows_of_the_lane_that_they_name():
    rows = [
        gap_row(1, Gap(Lane.TEL, 5, 9, 1, 50, "quota")),
        gap_row(2, Gap(Lane.TEL, 10, 19, 2, 50, "quota")),
        gap_row(3, Gap(Lane.TEL, 9, 5, 1, 50, "backwards")),
    ]
    batch = _decode(delivery(rows, Lane.EVT), lane=Lane.EVT)
    assert batch.covered[KEY] == [(5, 9)]
    assert batch.thinned == {KEY: [(10, 19, 2)]}
    assert sorted(batch.rows["d1", "e1", "evt"]) == [1, 2]
    assert len(batch.gaps) == 2


def test_an_escalation_for_another_model_than_its_subject_is_set_aside():
    rows = [escalation_row(1, "v1", digest="x", model="other"), escalation_row(2, "v2", digest="x")]
    batch = _decode(delivery(rows, Lane.BULK), lane=Lane.BULK)
    assert [each["verdict"] for each in batch.escalations] == ["v2"]
    assert "another model" in _reasons(batch)[0]


def test_the_same_dead_letter_has_the_same_digest():
    bad = delivery([verdict_row(1)], Lane.TEL)
    assert _decode(bad).dead_letters == _decode(bad).dead_letters


@given(
    st.binary(max_size=200),
    st.dictionaries(st.sampled_from([subjects.MSG_ID, subjects.SCHEMA]), st.text(max_size=40)),
)
def test_no_bytes_and_headers_raise(body, headers):
    good = delivery([raw_row(1)], Lane.TEL)
    batch = _decode(dataclasses.replace(good, body=body, headers=headers), good)
    assert len(batch.dead_letters) == 1
    assert batch.rows == {KEY: {1: 4}}


def test_gaps_of_strides_that_no_device_uses_are_set_aside_and_the_rest_costs_no_time():
    strides = (2, 3, 5, 7, 11, 13, 17, 19, 23)
    rows = [
        gap_row(20 * n + i + 1, Gap(Lane.TEL, i + 1, 9_999_999, by, 0, "quota"))
        for n, by in enumerate(strides)
        for i in range(20)
    ]
    started = time.thread_time()
    batch = _decode(delivery(rows, Lane.EVT), lane=Lane.EVT)
    marks = Marks().add(thinned=batch.thinned[KEY])
    marks.missing(limit=64)
    assert time.thread_time() - started < 0.2
    assert batch.set_aside == 160
    assert marks.applied == 1


@pytest.mark.parametrize(("stride", "taken"), [(0, 1), (1, 1), (1 << 20, 1), (1 << 21, 0), (-2, 0)])
def test_a_gap_has_a_stride_that_a_device_uses(stride, taken):
    row = gap_row(1, Gap(Lane.TEL, 1, 9, stride, 0, "quota"))
    assert len(_decode(delivery([row], Lane.EVT), lane=Lane.EVT).gaps) == taken


def test_a_message_of_too_many_rows_is_one_dead_letter():
    rows = [Row(seq, RowClass.RAW, b"") for seq in range(1, MAX_ROWS + 2)]
    batch = _decode(delivery(rows, Lane.TEL))
    assert len(batch.dead_letters) == 1
    assert "at most 4096" in batch.dead_letters[0]["reason"]
    assert batch.covered == {KEY: [(1, MAX_ROWS + 1)]}


def test_a_fetch_of_bad_rows_leads_to_few_dead_letters_and_settles_every_row():
    rows = [Row(seq, RowClass.RAW, b"") for seq in range(1, MAX_ROWS + 1)]
    batch = _decode(delivery(rows, Lane.TEL))
    assert batch.set_aside == MAX_ROWS
    assert len(batch.dead_letters) == MAX_LETTERS + 1
    rest = batch.dead_letters[-1]
    assert (rest["body"], rest["first"], rest["last"]) == (None, 1, MAX_ROWS)
    assert f"{MAX_ROWS - MAX_LETTERS} more rows" in rest["reason"]
    assert Marks().add(covered=batch.covered[KEY]).applied == MAX_ROWS
