"""Which tier answers, with which reasons; alarms, events and escalations."""

from dataclasses import replace

import numpy as np
import pytest

from contract.encoding import decode
from contract.messages import Escalation, VerdictEvent
from contract.status import Health, Reason, RowClass, Tier
from contract.tensors import unpack_array
from edge_agent.inference.package import read_package
from edge_agent.types import LinkState
from tests.fakes.batches import START_S, message_batch
from tests.fakes.clocks import StandingClock
from tests.fakes.packages import FailingScorer, tiny_scorer, write_package
from tests.fakes.pipelines import pipeline_of
from tests.fakes.settings import settings_of, stream

MODEL = stream(model="tiny")
HUB = {"url": "nats://127.0.0.1:4222"}
UP = LinkState(Health.ONLINE, rtt_ms=2.0, since_s=0.0)
DOWN = LinkState(Health.OFFLINE, rtt_ms=2.0, since_s=0.0)


def flow(*values, topic: str = "site/a"):
    return message_batch([(topic, {"flow": value}) for value in values])


def kinds(outcome) -> list[RowClass]:
    return [row.kind for row in outcome.rows if row.kind is not RowClass.RAW]


@pytest.fixture
def scorer(tmp_path):
    return tiny_scorer(tmp_path)


def test_the_model_answers_with_its_release_and_the_window_it_saw(scorer):
    pipeline = pipeline_of(settings_of(MODEL), {"tiny": scorer})
    outcome = pipeline.process(flow(0.1, 0.2, 0.3, 0.0))
    first, second = outcome.verdicts
    assert (first.label, first.tier, first.model, first.release) == (
        "normal",
        Tier.MODEL,
        "tiny",
        7,
    )
    assert first.score == pytest.approx(0.2)
    assert (first.number, first.window_from_s, first.time_s) == (3, START_S, START_S + 2)
    assert second.number == 4
    assert first.reasons == (Reason.CONFIDENT,)
    assert first.stages_ms == {}
    assert kinds(outcome) == []


def test_the_channels_of_the_model_are_taken_from_a_wider_stream(tmp_path):
    table = stream(model="tiny", channels={"temp": {}, "flow": {}})
    pipeline = pipeline_of(settings_of(table), {"tiny": tiny_scorer(tmp_path)})
    items = [("site/a", {"temp": 50, "flow": 2})] * 3
    assert pipeline.process(message_batch(items)).verdicts[0].score == 2.0


def test_before_the_baseline_knows_enough_the_answer_is_unknown_and_that_is_never_repeated():
    outcome = pipeline_of(settings_of()).process(flow(1, 1, 1))
    assert [v.tier for v in outcome.verdicts] == [Tier.BASELINE] * 3
    assert all(v.label == "unknown" for v in outcome.verdicts)
    assert Reason.WARMING_UP in outcome.verdicts[2].reasons


def test_without_a_model_the_baseline_answers_and_an_oddity_raises_one_alarm():
    pipeline = pipeline_of(settings_of())
    values = [10 + 0.1 * (n % 5) for n in range(60)] + [90.0, 91.0, 10.0]
    outcome = pipeline.process(flow(*values))
    assert [v.label for v in outcome.verdicts[-3:]] == ["anomaly", "anomaly", "normal"]
    assert outcome.verdicts[-1].tier is Tier.BASELINE
    assert outcome.verdicts[-1].reasons == (Reason.NO_MODEL,)
    (alarm,) = outcome.alarms
    assert alarm.verdict is outcome.verdicts[60]
    assert (alarm.episode, alarm.raised_s) == (alarm.verdict.id, START_S + 60)
    assert kinds(outcome)[-2:] == [RowClass.ALARM, RowClass.VERDICT]
    event = decode(next(r for r in outcome.rows if r.kind is RowClass.ALARM).body, VerdictEvent)
    assert (event.id, event.label, event.window_from_s) == (alarm.episode, "anomaly", START_S + 60)


def test_a_window_with_too_many_holes_falls_to_the_baseline(scorer):
    table = stream(model="tiny", channels={"flow": {}, "temp": {}})
    pipeline = pipeline_of(settings_of(table), {"tiny": scorer})
    pipeline.process(message_batch([("site/a", {"flow": 1, "temp": 20})] * 40))
    gap = message_batch([("site/a", {"temp": 20})] * 2)
    held, lost = pipeline.process(gap).verdicts
    assert held.tier is Tier.MODEL
    assert held.score == 1.0
    assert lost.tier is Tier.BASELINE
    assert lost.reasons == (Reason.INCOMPLETE,)


def test_holes_of_one_stream_do_not_cost_another_its_model(scorer):
    table = stream(model="tiny", channels={"flow": {}, "temp": {}})
    pipeline = pipeline_of(settings_of(table), {"tiny": scorer})
    items = [(f"site/{s}", {"flow": 1, "temp": 2}) for s in "ab"]
    pipeline.process(message_batch(items * 40))
    outcome = pipeline.process(
        message_batch([("site/a", {"temp": 2}), ("site/b", {"flow": 4})] * 2)
    )
    assert [v.tier for v in outcome.verdicts[2:]] == [Tier.BASELINE, Tier.MODEL]
    assert outcome.verdicts[3].score == 3.0


def test_a_model_that_fails_costs_a_tier_and_is_said_until_it_works_again(tmp_path):
    failing = FailingScorer(read_package(write_package(tmp_path)))
    pipeline = pipeline_of(settings_of(MODEL), {"tiny": failing})
    outcome = pipeline.process(flow(*[1.0] * 40))
    assert outcome.verdicts[-1].tier is Tier.BASELINE
    assert outcome.verdicts[-1].reasons == (Reason.MODEL_FAILED,)
    assert pipeline.model_faults() == {"pump": "the model failed: out of memory"}
    failing.failing = False
    assert pipeline.process(flow(1.0)).verdicts[0].tier is Tier.MODEL
    assert pipeline.model_faults() == {}


def test_a_model_that_was_not_loaded_leaves_the_baseline():
    outcome = pipeline_of(settings_of(MODEL)).process(flow(*[1.0] * 40))
    assert outcome.verdicts[-1].tier is Tier.BASELINE
    assert outcome.verdicts[-1].model == "tiny"
    assert outcome.verdicts[-1].reasons == (Reason.NO_MODEL,)


RULES = stream(model="tiny", channels={"flow": {"alarm_above": 50, "alarm_below": -50}})


def test_a_breach_overrules_the_model(scorer):
    pipeline = pipeline_of(settings_of(RULES, hub=HUB), {"tiny": scorer})
    outcome = pipeline.process(flow(1, 1, 1, 51, 1), UP)
    assert [v.label for v in outcome.verdicts] == ["normal", "breach", "anomaly"]
    breach = outcome.verdicts[1]
    assert (breach.tier, breach.score, breach.confidence) == (Tier.RULE, 1.0, 1.0)
    assert breach.reasons == (Reason.BREACH,)
    assert [alarm.verdict for alarm in outcome.alarms] == [breach]
    assert pipeline.process(flow(-51)).verdicts[0].label == "breach"


def test_a_breach_before_the_first_window_was_full_is_not_missed(scorer):
    outcome = pipeline_of(settings_of(RULES), {"tiny": scorer}).process(flow(99, 1, 1, 1))
    assert [v.tier for v in outcome.verdicts] == [Tier.RULE, Tier.MODEL]


def test_every_reading_of_a_hop_is_checked_for_a_breach():
    table = stream(window=4, hop=2, channels={"flow": {"alarm_above": 50}})
    outcome = pipeline_of(settings_of(table)).process(flow(1, 1, 1, 1, 99, 1, 1, 1))
    assert [v.label == "breach" for v in outcome.verdicts] == [False, True, False]


# --- asking the hub --------------------------------------------------------------------------

UNSURE = 3.01


def asking(tmp_path, **more):
    given = {"hub": HUB} | more
    return pipeline_of(settings_of(MODEL, **given), {"tiny": tiny_scorer(tmp_path)})


def test_an_uncertain_window_waits_for_the_hub_with_its_local_answer_in_hand(tmp_path):
    pipeline = asking(tmp_path)
    outcome = pipeline.process(flow(*[UNSURE] * 4), UP)
    assert outcome.verdicts == []
    (ask,) = outcome.asks
    assert (ask.family, ask.release) == ("tiny", 7)
    assert ask.features.tolist() == np.full((2, 3), np.float32(UNSURE)).tolist()
    assert [v.tier for v in ask.verdicts] == [Tier.MODEL] * 2
    assert ask.verdicts[0].reasons == (Reason.UNCERTAIN,)
    assert ask.deadlines_ns == [round(START_S * 1e9) + 240_000_000] * 2


def test_sure_and_unsure_windows_of_one_batch_go_their_own_ways(tmp_path):
    outcome = asking(tmp_path).process(flow(UNSURE, UNSURE, UNSURE, 99.0, 99.0), UP)
    (ask,) = outcome.asks
    assert len(ask.verdicts) == 1
    assert ask.features.shape == (1, 3)
    assert [v.number for v in outcome.verdicts] == [4, 5]


def test_while_the_hub_is_away_uncertain_windows_are_answered_and_queued(tmp_path):
    outcome = asking(tmp_path).process(flow(*[UNSURE] * 3), DOWN)
    (verdict,) = outcome.verdicts
    assert verdict.reasons == (Reason.UNCERTAIN, Reason.HUB_OFFLINE, Reason.BULK_ESCALATED)
    assert RowClass.ESCALATION in kinds(outcome)
    row = next(row for row in outcome.rows if row.kind is RowClass.ESCALATION)
    assert row.model == "tiny"
    escalation = decode(row.body, Escalation)
    assert (escalation.verdict, escalation.label) == (verdict.id, verdict.label)
    features = unpack_array(escalation.features, max_bytes=100)
    assert features.tolist() == [[np.float32(UNSURE)] * 3]


def test_an_escalated_verdict_is_an_event_even_if_its_label_is_the_same(tmp_path):
    pipeline = asking(tmp_path)
    pipeline.process(flow(*[99.0] * 3), DOWN)
    outcome = pipeline.process(flow(*[UNSURE] * 3), DOWN)
    escalated = {v.id for v in outcome.verdicts if Reason.BULK_ESCALATED in v.reasons}
    events = {decode(r.body, VerdictEvent).id for r in outcome.rows if r.kind is RowClass.VERDICT}
    assert escalated
    assert escalated <= events


def test_what_is_put_to_the_hub_at_once_fits_into_a_message(tmp_path):
    scorers = {"tiny": tiny_scorer(tmp_path, window=2000)}
    pipeline = pipeline_of(settings_of(MODEL, hub=HUB), scorers)
    outcome = pipeline.process(flow(*[UNSURE] * 2045), UP)
    assert [len(ask.verdicts) for ask in outcome.asks] == [20, 20, 6]
    assert all(ask.features.nbytes <= 160 * 1024 for ask in outcome.asks)
    assert all(
        len(ask.features) == len(ask.verdicts) == len(ask.deadlines_ns) for ask in outcome.asks
    )
    numbers = [verdict.number for ask in outcome.asks for verdict in ask.verdicts]
    assert numbers == list(range(2000, 2046))


def test_no_more_windows_are_asked_about_than_the_budget_allows(tmp_path):
    pipeline = asking(tmp_path, routing={"max_escalations_per_s": 2})
    outcome = pipeline.process(flow(*[UNSURE] * 6), UP)
    assert len(outcome.asks[0].verdicts) == 2
    assert [v.reasons[-1] for v in outcome.verdicts] == [Reason.RATE_LIMITED] * 2


def test_a_stream_that_may_not_escalate_does_not(tmp_path):
    settings = settings_of(MODEL | {"escalate": "never"}, hub=HUB)
    outcome = pipeline_of(settings, {"tiny": tiny_scorer(tmp_path)}).process(
        flow(*[UNSURE] * 3), UP
    )
    assert outcome.asks == []
    assert outcome.verdicts[0].reasons[-1] is Reason.HUB_DISABLED


def test_a_window_that_waited_too_long_is_not_put_to_the_hub(tmp_path):
    clock = StandingClock(START_S + 2.24)
    pipeline = pipeline_of(
        settings_of(MODEL, hub=HUB), {"tiny": tiny_scorer(tmp_path)}, clock=clock, timed=True
    )
    outcome = pipeline.process(flow(*[UNSURE] * 3), UP)
    assert outcome.asks == []
    assert Reason.NO_TIME in outcome.verdicts[0].reasons


def test_live_verdicts_say_where_the_time_went(tmp_path):
    clock = StandingClock(START_S + 3)
    pipeline = pipeline_of(settings_of(), clock=clock, timed=True)
    (verdict,) = pipeline.process(flow(1.0)).verdicts
    assert set(verdict.stages_ms) == {
        "wait",
        "decode",
        "validate",
        "window",
        "inference",
        "decision",
    }
    assert verdict.stages_ms["wait"] == pytest.approx(3000.0)
    assert verdict.arrival_ns == round(START_S * 1e9)


def test_the_answer_of_the_hub_is_settled_like_any_other(tmp_path):
    pipeline = asking(tmp_path)
    outcome = pipeline.process(flow(*[UNSURE] * 3), UP)
    (local,) = outcome.asks[0].verdicts
    final = replace(local, label="anomaly", tier=Tier.HUB)
    settled = type(outcome)()
    pipeline.settle(final, settled, escalated=True)
    assert settled.verdicts == [final]
    assert [alarm.episode for alarm in settled.alarms] == [final.id]
    assert kinds(settled) == [RowClass.ALARM]
    assert pipeline.checkpoints()[0].stream == "pump/a"


def test_a_verdict_of_a_stream_that_is_gone_is_still_given():
    pipeline = pipeline_of(settings_of())
    outcome = pipeline.process(flow(1.0))
    settled = type(outcome)()
    pipeline.settle(replace(outcome.verdicts[0], stream="gone"), settled, escalated=True)
    assert len(settled.verdicts) == len(settled.changed) == 1
    assert settled.alarms == []


def test_the_deadline_of_a_stream_is_its_tables():
    settings = settings_of(stream(deadline_ms=100), stream("other", "x", deadline_ms=50))
    pipeline = pipeline_of(settings)
    pipeline.process(flow(1.0, topic="x"))
    assert pipeline.deadline_ms("other") == 50
    assert pipeline.deadline_ms("unknown") == 100
