"""What survives a stop, and what is left out of it without harm."""

from typing import Any

import msgspec
import pytest

from contract.encoding import encode
from contract.status import RowClass
from edge_agent.pipeline.memory import read_memory
from edge_agent.types import Recovery, StoredRow
from tests.fakes.batches import message_batch
from tests.fakes.packages import tiny_scorer
from tests.fakes.pipelines import Spool, pipeline_of, told
from tests.fakes.settings import settings_of, stream

TABLE = stream(model="tiny")


def flow(*values, topic: str = "site/a", **more):
    return message_batch([(topic, {"flow": value}) for value in values], **more)


@pytest.fixture
def scorers(tmp_path):
    return {"tiny": tiny_scorer(tmp_path)}


def checkpoint(pipeline) -> dict[str, tuple[int, bytes]]:
    return {each.stream: (0, each.body) for each in pipeline.checkpoints()}


def after(settings, scorers, recovery: Recovery, *values, topic: str = "site/a"):
    pipeline = pipeline_of(settings, scorers)
    pipeline.recover(recovery)
    return pipeline.process(flow(*values, topic=topic)).verdicts


def test_the_id_of_a_verdict_is_the_same_after_a_redelivery(scorers):
    settings = settings_of(TABLE)
    once = pipeline_of(settings, scorers).process(flow(1, 2, 3)).verdicts
    again = pipeline_of(settings, scorers).process(flow(1, 2, 3, dup=True)).verdicts
    assert told(once) == told(again)


def test_ids_differ_by_device_epoch_stream_and_number(scorers):
    settings = settings_of(TABLE)
    ids = [v.id for v in pipeline_of(settings, scorers).process(flow(1, 1, 1, 1)).verdicts]
    ids += [
        v.id for v in pipeline_of(settings, scorers, epoch="e2").process(flow(1, 1, 1)).verdicts
    ]
    ids += [
        v.id for v in pipeline_of(settings, scorers).process(flow(1, 1, 1, topic="site/b")).verdicts
    ]
    assert len(set(ids)) == len(ids) == 4


def test_a_half_filled_window_survives(scorers):
    settings = settings_of(TABLE)
    before, spool = pipeline_of(settings, scorers), Spool()
    spool.commit(before, before.process(flow(1, 2)), checkpoint=False)
    (verdict,) = after(settings, scorers, spool.recovery(), 3)
    assert (verdict.number, verdict.score) == (3, 2.0)


def test_only_streams_that_changed_are_checkpointed(scorers):
    pipeline = pipeline_of(settings_of(TABLE), scorers)
    pipeline.process(flow(1))
    pipeline.process(flow(1, topic="site/b"))
    assert [each.stream for each in pipeline.checkpoints()] == ["pump/a", "pump/b"]
    assert pipeline.checkpoints() == ()
    pipeline.process(flow(1, topic="site/b"))
    assert [each.stream for each in pipeline.checkpoints()] == ["pump/b"]


def test_an_open_alarm_is_not_raised_again_after_a_restart(scorers):
    settings = settings_of(TABLE)
    before, spool = pipeline_of(settings, scorers), Spool()
    outcome = before.process(flow(99, 99, 99))
    assert len(outcome.alarms) == 1
    spool.commit(before, outcome, checkpoint=True)
    new = pipeline_of(settings, scorers)
    new.recover(spool.recovery())
    assert new.process(flow(99)).alarms == []


def test_recovering_emits_nothing_and_counts_the_readings(scorers):
    settings = settings_of(TABLE)
    before, spool = pipeline_of(settings, scorers), Spool()
    spool.commit(before, before.process(flow(99, 99, 99)), checkpoint=False)
    assert pipeline_of(settings, scorers).recover(spool.recovery()) == 3


def test_a_model_of_another_window_goes_on_with_what_it_has(scorers, tmp_path):
    before = pipeline_of(settings_of(TABLE), scorers)
    before.process(flow(*range(10)))
    kept = Recovery("e1", checkpoint(before))
    shorter = {"tiny": tiny_scorer(tmp_path / "2", window=2)}
    (verdict,) = after(settings_of(TABLE), shorter, kept, 10)
    assert (verdict.number, verdict.score) == (11, 9.5)
    longer = {"tiny": tiny_scorer(tmp_path / "5", window=5)}
    verdicts = after(settings_of(TABLE), longer, kept, 10, 11)
    assert [v.number for v in verdicts] == [11, 12]


def test_streams_of_two_tables_that_look_alike_go_back_to_their_own():
    settings = settings_of(stream("{1}", "site/+"), stream("flow", "flow"), stream("pump", "p/+"))
    before, spool = pipeline_of(settings), Spool()
    for topic in ("flow", "site/x", "p/1"):
        spool.commit(before, before.process(flow(1, 2, topic=topic)), checkpoint=False)
    checkpoints = checkpoint(before)
    for recovery in (Recovery("e1", checkpoints), spool.recovery()):
        new = pipeline_of(settings)
        new.recover(recovery)
        for topic in ("flow", "site/x", "p/1"):
            outcome = new.process(flow(3, topic=topic))
            assert outcome.faults == []
            assert [v.number for v in outcome.verdicts] == [3]


def garbage(kind: str, body: bytes) -> bytes:
    memory = read_memory(body)
    assert memory is not None
    changed: dict[str, dict[str, Any]] = {
        "short values": {"values": memory.values[:-8]},
        "torn times": {"times": memory.times[:-1]},
        "no level": {"level": b""},
        "other channels": {"channels": ("flow", "temp")},
        "no channels": {"channels": (), "values": b"", "level": b"", "spread": b"", "seen": b""},
        "number too small": {"number": 1},
        "negative number": {"number": -5},
    }
    if kind in changed:
        return encode(msgspec.structs.replace(memory, **changed[kind]))
    return {"empty": b"", "noise": b"\xc1\xff", "torn": body[:-3]}[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "empty",
        "noise",
        "torn",
        "short values",
        "torn times",
        "no level",
        "other channels",
        "no channels",
        "number too small",
        "negative number",
    ],
)
def test_a_checkpoint_that_cannot_be_used_is_left_out(scorers, kind):
    settings = settings_of(TABLE)
    before = pipeline_of(settings, scorers)
    before.process(flow(1, 2, 3))
    before.process(flow(1, 2, topic="site/b"))
    kept = checkpoint(before)
    kept["pump/a"] = (0, garbage(kind, kept["pump/a"][1]))
    assert after(settings, scorers, Recovery("e1", kept), 9) == []
    assert len(after(settings, scorers, Recovery("e1", kept), 9, topic="site/b")) == 1


def test_a_stored_row_that_cannot_be_read_is_left_out(scorers):
    settings = settings_of(TABLE)
    before, spool = pipeline_of(settings, scorers), Spool()
    spool.commit(before, before.process(flow(1, 2)), checkpoint=False)
    noise = StoredRow(0, RowClass.RAW, b"\xc1", 1, "", 0.0)
    recovery = Recovery("e1", {}, (noise, *spool.rows))
    assert len(after(settings, scorers, recovery, 3)) == 1


def test_streams_whose_table_is_gone_or_has_other_channels_are_left_out(scorers):
    before, spool = pipeline_of(settings_of(TABLE), scorers), Spool()
    spool.commit(before, before.process(flow(1, 2)), checkpoint=True)
    for table in (
        stream("other"),
        stream(channels={"flow": {}, "temp": {}}),
        stream(channels={"temp": {"path": "flow"}}),
    ):
        new = pipeline_of(settings_of(table))
        assert new.recover(spool.recovery()) == 0
        assert new.process(flow(3)).verdicts[0].number == 1


def test_no_more_streams_come_back_than_the_limit_allows(scorers):
    before, spool = pipeline_of(settings_of(TABLE), scorers), Spool()
    for name in "abc":
        spool.commit(before, before.process(flow(1, topic=f"site/{name}")), checkpoint=True)
    new = pipeline_of(settings_of(TABLE, limits={"max_streams": 2}), scorers)
    new.recover(spool.recovery())
    assert new.registry.count == 2
