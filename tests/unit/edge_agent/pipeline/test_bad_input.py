"""Every bad input is counted with a reason, and its neighbours are unharmed."""

from dataclasses import replace

import numpy as np
import pytest

from contract.status import Fault
from contract.trust import ReadingFlag
from tests.fakes.batches import START_S, message_batch
from tests.fakes.pipelines import details_of, faults_of, pipeline_of, raw_of
from tests.fakes.settings import settings_of, stream

TABLE = stream(channels={"flow": {"min": 0, "max": 100, "unit": "l/s"}, "temp": {"unit": "C"}})
GOOD = {"flow": 1.5, "temp": 20}


def good_of(outcome) -> int:
    return sum(
        1
        for row in raw_of(outcome)
        for group in row.groups
        for values in np.frombuffer(group.values).reshape(group.count, -1).tolist()
        if values == [1.5, 20.0]
    )


@pytest.mark.parametrize(
    ("topic", "payload", "fault"),
    [
        ("site/bad", b"{", "bad_json"),
        ("site/bad", b"", "bad_json"),
        ("site/bad", b"\xff\xfe{", "bad_text"),
        ("site/bad", b'{"flow": 1, "x": "\xff"}', "bad_text"),
        ("site/bad", b"[" * 10_000, "too_deep"),
        ("site/bad", b'{"flow": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "too_deep"),
        ("site/bad", b"x" * 1_048_576, "too_large"),
        ("site/bad", b'{"flow": "fast", "temp": []}', "wrong_type"),
        ("site/bad", b"12", "wrong_type"),
        ("site/bad", b"{}", "no_values"),
        ("site/bad", b'{"flow": -1}', "out_of_range"),
        ("site/bad", b'{"flow": NaN, "temp": 1e400}', "not_a_number"),
        ("elsewhere/bad", b'{"flow": 1}', "no_stream"),
        ("site/" + "x" * 2000, b'{"flow": 1}', "too_large"),
        (None, b'{"flow": 1}', "bad_text"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_bad_message_is_counted_with_its_reason_and_its_neighbours_are_unharmed(
    topic, payload, fault
):
    pipeline = pipeline_of(settings_of(TABLE))
    outcome = pipeline.process(
        message_batch([("site/a", GOOD), (topic, payload), ("site/b", GOOD)])
    )
    assert outcome.readings == 2
    assert good_of(outcome) == 2
    assert len(outcome.verdicts) == 2
    assert faults_of(outcome)[fault] >= 1
    note = next(note for note in outcome.faults if note.fault == fault)
    assert note.detail
    assert note.sample == payload[:256]
    assert len(note.topic) <= 256
    assert note.topic == (topic or "")[:256]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (b"NaN", "not_a_number"),
        (b"-Infinity", "not_a_number"),
        (b"1e400", "not_a_number"),
        (b"null", "missing"),
        (b'"unavailable"', "missing"),
        (b"true", "wrong_type"),
        (b"-5", "out_of_range"),
        (b"101", "out_of_range"),
    ],
)
def test_one_channel_is_rejected_and_the_others_are_kept(given, fault):
    pipeline = pipeline_of(settings_of(TABLE))
    payload = b'{"flow": ' + given + b', "temp": 20}'
    outcome = pipeline.process(message_batch([("site/a", payload)]))
    assert faults_of(outcome) == {fault: 1}
    (note,) = outcome.faults
    assert note.stream == "pump/a"
    assert "flow" in note.detail
    ((group,),) = [row.groups for row in raw_of(outcome)]
    values = np.frombuffer(group.values).tolist()
    assert np.isnan(values[0])
    assert values[1] == 20.0
    assert group.flags == bytes([ReadingFlag.CHANNEL_REJECTED])


@pytest.mark.parametrize("year", [0, 12, "1970-01-01T00:00:00Z", "2099-01-01T00:00:00Z", 4.07e12])
def test_an_implausible_time_is_kept_with_the_arrival_time_and_flagged(year):
    pipeline = pipeline_of(settings_of(TABLE))
    outcome = pipeline.process(message_batch([("site/a", GOOD | {"ts": year}), ("site/b", GOOD)]))
    assert outcome.readings == 2
    assert faults_of(outcome) == {"time_untrusted": 1}
    bad, good = raw_of(outcome)[0].groups
    assert np.frombuffer(bad.times).tolist() == [START_S]
    assert np.frombuffer(bad.values).tolist() == [1.5, 20.0]
    assert bad.flags == bytes([ReadingFlag.TIME_UNTRUSTED])
    assert good.flags == bytes(1)
    assert outcome.verdicts[0].time_s == START_S


def test_in_recorded_mode_the_payloads_time_stands():
    pipeline = pipeline_of(settings_of(TABLE | {"time": "recorded"}))
    outcome = pipeline.process(message_batch([("site/a", GOOD | {"ts": "1970-01-02T00:00:00"})]))
    assert outcome.faults == []
    assert outcome.verdicts[0].time_s == 86400.0


def test_a_time_that_cannot_be_read_is_counted_and_the_arrival_stands():
    pipeline = pipeline_of(settings_of(TABLE))
    outcome = pipeline.process(message_batch([("site/a", GOOD | {"ts": "yesterday"})]))
    assert faults_of(outcome) == {"bad_time": 1}
    assert outcome.verdicts[0].time_s == START_S


def test_in_arrival_mode_nobody_minds_the_payloads_time():
    pipeline = pipeline_of(settings_of(TABLE | {"time": "arrival"}))
    outcome = pipeline.process(message_batch([("site/a", GOOD | {"ts": "yesterday"})]))
    assert outcome.faults == []
    assert outcome.verdicts[0].time_s == START_S


def test_a_retained_message_is_counted_and_not_taken_for_a_new_reading():
    pipeline = pipeline_of(settings_of(TABLE))
    batch = message_batch([("site/a", GOOD), ("site/b", GOOD)])
    outcome = pipeline.process(replace(batch, retained=[True, False]))
    assert faults_of(outcome) == {"retained": 1}
    assert [v.stream for v in outcome.verdicts] == ["pump/b"]


def test_streams_beyond_the_limit_are_counted_and_the_others_go_on():
    pipeline = pipeline_of(settings_of(TABLE, limits={"max_streams": 2}))
    items = [(f"site/{n}", GOOD) for n in (1, 2, 3, 4, 1)]
    outcome = pipeline.process(message_batch(items))
    assert faults_of(outcome) == {"too_many_streams": 2}
    assert outcome.readings == 3


def test_a_topic_that_would_feed_a_stream_of_another_table_is_counted_not_mixed():
    pipeline = pipeline_of(settings_of(stream("pump", "a/+"), stream("pump/{1}", "b/+")))
    outcome = pipeline.process(message_batch([("a/1", {"flow": 1}), ("b/1", {"flow": 2})]))
    assert faults_of(outcome) == {"no_stream": 1}
    assert "give one another name" in details_of(outcome, Fault.NO_STREAM)[0]
    assert outcome.readings == 1


def test_a_flood_of_faults_is_counted_whole_and_sampled_a_little():
    pipeline = pipeline_of(settings_of(TABLE))
    items = [(f"site/{n % 200}", b"{") for n in range(3000)] + [("site/ok", GOOD)]
    outcome = pipeline.process(message_batch(items))
    assert faults_of(outcome)["bad_json"] == 3000
    assert sum(1 for note in outcome.faults if note.sample) <= 64
    assert outcome.readings == 1


def test_a_batch_with_nothing_good_leads_to_no_row():
    pipeline = pipeline_of(settings_of(TABLE))
    outcome = pipeline.process(message_batch([("site/a", b"{"), ("x", b"{}")]))
    assert (outcome.rows, outcome.verdicts, outcome.readings) == ([], [], 0)
    assert pipeline.checkpoints() == ()
    assert pipeline.process(message_batch([])).rows == []
