import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from contract.status import Health, Reason, Tier
from edge_agent.routing.budget import TokenBucket
from edge_agent.routing.episodes import StreamHistory, settle
from edge_agent.routing.ladder import LocalAnswer
from edge_agent.routing.policy import EMIT_MARGIN_MS, Action, Policy, Situation, decide

UNIT = st.floats(0, 1)
LOCALS = st.builds(
    LocalAnswer,
    tier=st.sampled_from(Tier),
    label=st.just("x"),
    score=UNIT,
    confidence=UNIT,
    reasons=st.just(()),
    in_domain=st.booleans(),
    mandatory=st.booleans(),
)
POLICIES = st.builds(
    Policy, escalate_below=UNIT, allowed=st.booleans(), bulk_when_offline=st.booleans()
)
SITUATIONS = st.builds(
    Situation,
    health=st.sampled_from(Health),
    rtt_ms=st.floats(0, 1e4),
    time_left_ms=st.floats(-1e5, 1e5),
    tokens=st.floats(-1, 1e3),
)
COST = {Action.ANSWER: 0, Action.QUEUE: 1, Action.ASK: 2}


@given(LOCALS, POLICIES, SITUATIONS)
def test_the_hub_is_asked_only_with_leave_tokens_link_and_time(local, policy, now):
    found = decide(local, policy, now)
    if found.action is not Action.ANSWER:
        assert policy.allowed
        assert now.tokens >= 1
        assert local.tier is Tier.MODEL
        assert not local.mandatory
        assert local.confidence < policy.escalate_below or not local.in_domain
    if found.action is Action.ASK:
        assert now.health is not Health.OFFLINE
        assert 0 < found.wait_ms <= now.time_left_ms - EMIT_MARGIN_MS
        assert found.wait_ms >= 1.5 * now.rtt_ms
    if found.action is Action.QUEUE:
        assert policy.bulk_when_offline


@given(LOCALS, POLICIES, SITUATIONS, UNIT)
def test_a_surer_answer_never_costs_more(local, policy, now, more):
    surer = replace(local, confidence=max(local.confidence, more))
    assert COST[decide(surer, policy, now).action] <= COST[decide(local, policy, now).action]


@given(LOCALS, POLICIES, SITUATIONS, st.floats(0, 1e5))
def test_more_time_never_asks_less(local, policy, now, more):
    later = replace(now, time_left_ms=now.time_left_ms + more)
    found = decide(local, policy, now)
    if found.action is Action.ASK:
        assert decide(local, policy, later).action is Action.ASK


@given(LOCALS, POLICIES, SITUATIONS)
def test_every_decision_about_a_models_answer_says_why(local, policy, now):
    found = decide(local, policy, now)
    if local.tier is Tier.MODEL and not local.mandatory:
        assert found.reasons
    assert len(set(found.reasons)) == len(found.reasons)
    assert all(isinstance(reason, Reason) for reason in found.reasons)


@given(st.floats(0, 100), st.lists(st.tuples(st.floats(0, 5), st.booleans()), max_size=60))
def test_no_more_goes_out_than_the_rate_allows(rate, steps):
    bucket, now, taken = TokenBucket(rate), 0.0, 0
    for wait, wants in steps:
        now += wait
        if bucket.available(now) >= 1.0 and wants:
            bucket.take()
            taken += 1
    assert taken <= max(1.0, rate) * (rate > 0) + rate * now + 1e-6


@given(st.lists(st.sampled_from(["normal", "anomaly", "breach"]), max_size=80), st.integers(1, 6))
def test_alarms_are_never_closer_than_the_quiet_windows_between_them(labels, rearm):
    history, raised = StreamHistory(), []
    for number, label in enumerate(labels):
        meaning = settle(
            history,
            verdict=str(number),
            label=label,
            score=0.0,
            confidence=0.5,
            time_s=float(number),
            number=number,
            alarm_labels=("anomaly", "breach"),
            rearm_windows=rearm,
        )
        if meaning.raises:
            raised.append(number)
            assert label != "normal"
    for one, other in itertools.pairwise(raised):
        assert labels[other - rearm : other] == ["normal"] * rearm
        assert other - one > rearm
    if any(label != "normal" for label in labels):
        assert raised
