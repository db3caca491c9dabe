"""A message whose content was stored before: a reading with a time of its own is not stored again."""

from tests.fakes.batches import START_S, message_batch
from tests.fakes.pipelines import faults_of, pipeline_of
from tests.fakes.settings import settings_of, stream

TABLE = stream(channels={"flow": {"min": 0, "max": 100}})


def timed(flow: float) -> dict[str, float]:
    return {"time": START_S, "flow": flow}


def test_a_suspect_with_a_time_of_its_own_is_dropped_and_counted_and_is_no_fault():
    batch = message_batch([("site/1", timed(1)), ("site/1", timed(2)), ("site/2", timed(3))])
    outcome = pipeline_of(settings_of(TABLE)).process(batch, suspects={0, 2})
    assert (outcome.readings, outcome.repeated) == (1, 2)
    assert [verdict.number for verdict in outcome.verdicts] == [1]
    assert faults_of(outcome) == {}


def test_a_suspect_without_a_time_may_be_a_new_reading_and_is_kept():
    batch = message_batch([("site/1", {"flow": 1})])
    outcome = pipeline_of(settings_of(TABLE)).process(batch, suspects={0})
    assert (outcome.readings, outcome.repeated) == (1, 0)


def test_suspects_and_rejected_channels_leave_their_neighbours():
    batch = message_batch([("site/1", timed(1)), ("site/1", timed(-1)), ("site/1", timed(3))])
    outcome = pipeline_of(settings_of(TABLE)).process(batch, suspects={0})
    assert (outcome.readings, outcome.repeated) == (1, 1)
    assert faults_of(outcome) == {"out_of_range": 1}
