import numpy as np
import pytest

from contract.encoding import MAX_MESSAGE_BYTES, decode, encode
from contract.messages import Clock, RawRow
from edge_agent.pipeline.telemetry import MAX_ROW_BYTES, group_batch, raw_rows
from edge_agent.readings.registry import Registry, make_kind
from edge_agent.settings import StreamSettings
from tests.fakes.batches import reading_batch
from tests.fakes.settings import stream

STAMP = Clock("b", 1.0, 2.0, trusted=True)


def registry(*, streams: int, channels: int = 1, name: str = "s", label: str = "c") -> Registry:
    table = stream(
        "t", "x/+", channels={f"{label}{n}": {"unit": "u" * 32} for n in range(channels)}
    )
    found = Registry([make_kind(0, StreamSettings(**table), None)], max_streams=9999)
    for number in range(streams):
        found.open(0, f"{name}{number}")
    return found


def test_a_row_holds_the_readings_of_a_batch_by_stream():
    batch = reading_batch([1, 0, 1], [10, 20, 11])
    (row,) = raw_rows([batch], registry(streams=2), STAMP)
    content = decode(row.body, RawRow)
    assert row.readings == 3
    assert content.clock == STAMP
    assert [(g.stream, g.first, g.count) for g in content.groups] == [("s0", 0, 1), ("s1", 1, 2)]
    assert np.frombuffer(content.groups[1].values).tolist() == [10, 11]
    assert content.groups[0].channels == ("c0",)
    assert content.groups[0].units == ("u" * 32,)


def test_no_reading_no_row():
    assert list(raw_rows([], registry(streams=1), STAMP)) == []


def test_a_burst_of_one_stream_is_spread_over_rows_of_256():
    rows = list(raw_rows([reading_batch([0] * 600, np.arange(600))], registry(streams=1), STAMP))
    assert [row.readings for row in rows] == [256, 256, 88]
    found = [decode(row.body, RawRow).groups[0] for row in rows]
    assert np.concatenate([np.frombuffer(g.values) for g in found]).tolist() == list(range(600))


@pytest.mark.parametrize(("streams", "channels", "name"), [(1, 256, "s"), (600, 8, "n" * 900)])
def test_a_row_always_fits_into_a_message(streams, channels, name):
    known = registry(streams=streams, channels=channels, name=name, label="l" * 60)
    slots = list(range(streams)) * (600 // streams)
    rows = list(raw_rows([reading_batch(slots, np.zeros((600, channels)))], known, STAMP))
    assert sum(row.readings for row in rows) == 600
    assert max(len(row.body) for row in rows) <= MAX_ROW_BYTES < MAX_MESSAGE_BYTES
    assert len(rows) < 40


def test_a_group_becomes_the_same_readings_again():
    batch = reading_batch([0, 0, 0], [[1, np.nan], [2, 5], [3, 6]])
    (row,) = raw_rows([batch], registry(streams=1, channels=2), STAMP)
    found = group_batch(decode(row.body, RawRow).groups[0], kind=0, slot=7)
    assert found.slots.tolist() == [7, 7, 7]
    np.testing.assert_array_equal(found.values, batch.values)
    assert found.times_s.tolist() == batch.times_s.tolist()
    assert found.arrivals_s.tolist() == batch.arrivals_s.tolist()
    assert found.flags.tolist() == batch.flags.tolist()
    assert len(encode(decode(row.body, RawRow))) == len(row.body)
