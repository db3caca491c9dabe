from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.encoding import MAX_READINGS_PER_ROW, decode
from contract.messages import Clock, RawRow
from edge_agent.pipeline.telemetry import MAX_ROW_BYTES, group_batch, raw_rows
from edge_agent.readings.registry import Registry, make_kind
from edge_agent.settings import StreamSettings
from edge_agent.types import MessageBatch
from tests.fakes.batches import START_S, message_batch, reading_batch
from tests.fakes.packages import tiny_scorer
from tests.fakes.pipelines import Spool, pipeline_of, told
from tests.fakes.settings import settings_of, stream

TABLES = settings_of(
    stream("pump", "p/+", model="tiny", channels={"temp": {}, "flow": {"alarm_above": 50}}),
    stream("door", "d/+", window=4, hop=3),
)


@cache
def scorers():
    with TemporaryDirectory() as folder:
        return {"tiny": tiny_scorer(Path(folder))}


MESSAGES = st.tuples(
    st.sampled_from(["p/1", "p/2", "d/1", "nobody/1"]),
    st.sampled_from([0.1, 1.0, 2.9, 3.1, 8.0, 60.0, None, "x"]),
)
BATCHES = st.lists(st.lists(MESSAGES, min_size=1, max_size=12), min_size=1, max_size=12)
REPEATS = st.integers(1, 6)


def batches_of(content, repeat: int) -> list[MessageBatch]:
    """Times go on; a long quiet prefix (repeat) lets the baseline learn."""
    made, at_s = [], START_S
    for part in content * repeat:
        items = [(topic, {"flow": value, "temp": 20.0}) for topic, value in part]
        made.append(message_batch(items, at_s=at_s))
        at_s += len(items)
    return made


@settings(max_examples=60)
@given(BATCHES, REPEATS, st.data())
def test_a_stop_anywhere_changes_no_verdict(content, repeat, data):
    batches = batches_of(content, repeat)
    whole = pipeline_of(TABLES, scorers())
    expected = [told(whole.process(batch).verdicts) for batch in batches]
    stops = data.draw(st.sets(st.integers(0, len(batches)), max_size=3))
    checkpointed = data.draw(st.sets(st.integers(0, len(batches)), max_size=6))
    spool, running = Spool(), pipeline_of(TABLES, scorers())
    for at, batch in enumerate(batches):
        if at in stops:
            running = pipeline_of(TABLES, scorers())
            running.recover(spool.recovery())
        outcome = running.process(batch)
        assert told(outcome.verdicts) == expected[at]
        spool.commit(running, outcome, checkpoint=at in checkpointed)


@settings(max_examples=40)
@given(BATCHES, st.data())
def test_verdicts_do_not_depend_on_how_messages_are_cut_into_batches(content, data):
    items = [(topic, {"flow": value, "temp": 1}) for part in content for topic, value in part]
    whole = pipeline_of(TABLES, scorers()).process(message_batch(items))
    cut = pipeline_of(TABLES, scorers())
    found, start = [], 0
    while start < len(items):
        size = data.draw(st.integers(1, 20))
        part = message_batch(items[start : start + size], at_s=START_S + start)
        found += cut.process(part).verdicts
        start += size
    key = lambda verdict: (verdict[1], verdict[2])  # noqa: E731 - by stream and number
    assert sorted(told(found), key=key) == sorted(told(whole.verdicts), key=key)


@settings(max_examples=40)
@given(BATCHES)
def test_two_runs_over_the_same_messages_are_the_same_to_the_byte(content):
    def run() -> list[object]:
        pipeline = pipeline_of(TABLES, scorers())
        outcomes = [pipeline.process(batch) for batch in batches_of(content, 1)]
        return [(o.rows, told(o.verdicts), o.faults) for o in outcomes] + [pipeline.checkpoints()]

    assert run() == run()


@settings(max_examples=40)
@given(BATCHES)
def test_every_due_window_gets_exactly_one_verdict_and_ids_never_repeat(content):
    pipeline = pipeline_of(TABLES, scorers())
    verdicts = [v for batch in batches_of(content, 2) for v in pipeline.process(batch).verdicts]
    assert len({v.id for v in verdicts}) == len(verdicts)
    for name in {v.stream for v in verdicts}:
        numbers = [v.number for v in verdicts if v.stream == name]
        hop = 3 if name.startswith("door") else 1
        first = 4 if name.startswith("door") else 3
        assert numbers == list(range(first, first + hop * len(numbers), hop))


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.lists(st.integers(0, 5), min_size=1, max_size=700)),
        max_size=3,
    ),
    st.integers(1, 40),
)
def test_raw_rows_are_small_and_lose_and_reorder_nothing(parts, channels):
    tables = [
        stream("a", "a/+", channels={f"c{n}": {} for n in range(channels)}),
        stream("b", "b/+"),
    ]
    kinds = [make_kind(n, StreamSettings(**table), None) for n, table in enumerate(tables)]
    registry = Registry(kinds, max_streams=99)
    for kind in (0, 1):
        for slot in range(6):
            registry.open(kind, f"{'ab'[kind]}/{slot}")
    batches, at = [], 0.0
    for kind, slots in parts:
        width = len(kinds[kind].channels)
        values = at + np.arange(float(len(slots) * width)).reshape(-1, width)
        batches.append(reading_batch(slots, values, kind=kind))
        at += 1e6
    rows = list(raw_rows(batches, registry, Clock("b", 0.0, 0.0, trusted=True)))
    found: dict[tuple[int, int], list[object]] = {}
    for row in rows:
        groups = decode(row.body, RawRow).groups
        assert row.readings == sum(group.count for group in groups) <= MAX_READINGS_PER_ROW
        assert len(row.body) <= MAX_ROW_BYTES
        assert [g.first for g in groups] == np.cumsum([0, *[g.count for g in groups]])[:-1].tolist()
        for group in groups:
            place = registry.find(group.stream)
            assert place is not None
            back = group_batch(group, kind=place[0], slot=place[1])
            found.setdefault(place, []).extend(back.values.tolist())
    expected: dict[tuple[int, int], list[object]] = {}
    for batch in batches:
        for slot, values in zip(batch.slots.tolist(), batch.values.tolist(), strict=True):
            expected.setdefault((batch.kind, slot), []).append(values)
    assert found == expected
