from dataclasses import replace

import pytest

from contract.status import Health, Reason, Tier
from edge_agent.routing.ladder import LocalAnswer
from edge_agent.routing.policy import EMIT_MARGIN_MS, Action, Policy, Situation, decide

POLICY = Policy(escalate_below=0.8, allowed=True, bulk_when_offline=True)
NOW = Situation(health=Health.ONLINE, rtt_ms=4.0, time_left_ms=200.0, tokens=5.0)
UNSURE = LocalAnswer(Tier.MODEL, "walk", 0.6, 0.6, reasons=())


def test_an_uncertain_window_is_put_to_the_hub_for_the_time_that_is_left():
    found = decide(UNSURE, POLICY, NOW)
    assert found.action is Action.ASK
    assert found.wait_ms == 200.0 - EMIT_MARGIN_MS
    assert found.reasons == (Reason.UNCERTAIN,)


def test_a_sure_answer_stands():
    found = decide(replace(UNSURE, confidence=0.8), POLICY, NOW)
    assert (found.action, found.reasons) == (Action.ANSWER, (Reason.CONFIDENT,))


def test_a_sure_answer_out_of_domain_is_uncertain():
    sure = replace(UNSURE, confidence=0.99, in_domain=False, reasons=(Reason.OUT_OF_DOMAIN,))
    found = decide(sure, POLICY, NOW)
    assert found.action is Action.ASK
    assert found.reasons == (Reason.OUT_OF_DOMAIN, Reason.UNCERTAIN)


@pytest.mark.parametrize("tier", [Tier.RULE, Tier.BASELINE, Tier.LAST_KNOWN])
def test_only_windows_with_features_are_put_to_the_hub(tier):
    local = replace(UNSURE, tier=tier, confidence=0.0, mandatory=tier is Tier.RULE)
    assert decide(local, POLICY, NOW).action is Action.ANSWER


@pytest.mark.parametrize(
    ("policy", "now", "action", "reason"),
    [
        (replace(POLICY, allowed=False), NOW, Action.ANSWER, Reason.HUB_DISABLED),
        (POLICY, replace(NOW, tokens=0.99), Action.ANSWER, Reason.RATE_LIMITED),
        (POLICY, replace(NOW, health=Health.OFFLINE), Action.QUEUE, Reason.HUB_OFFLINE),
        (POLICY, replace(NOW, time_left_ms=14.9), Action.QUEUE, Reason.NO_TIME),
        (POLICY, replace(NOW, time_left_ms=-500.0), Action.QUEUE, Reason.NO_TIME),
        (POLICY, replace(NOW, rtt_ms=150.0), Action.QUEUE, Reason.NO_TIME),
        (
            POLICY,
            replace(NOW, health=Health.OFFLINE, tokens=0.0),
            Action.ANSWER,
            Reason.RATE_LIMITED,
        ),
    ],
)
def test_nothing_is_asked_without_leave_tokens_link_or_time(policy, now, action, reason):
    found = decide(UNSURE, policy, now)
    assert found.action is action
    assert reason in found.reasons
    assert found.wait_ms == 0.0
    assert (Reason.BULK_ESCALATED in found.reasons) is (action is Action.QUEUE)


def test_a_window_is_not_queued_where_the_operator_says_no():
    policy = replace(POLICY, bulk_when_offline=False)
    found = decide(UNSURE, policy, replace(NOW, health=Health.OFFLINE))
    assert found.action is Action.ANSWER
    assert found.reasons[-1] is Reason.HUB_OFFLINE


def test_a_degraded_link_is_still_asked():
    assert decide(UNSURE, POLICY, replace(NOW, health=Health.DEGRADED)).action is Action.ASK
