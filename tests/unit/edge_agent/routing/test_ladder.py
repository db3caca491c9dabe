from itertools import product

import pytest

from contract.status import Reason, Tier
from edge_agent.routing.ladder import BaselineAnswer, Known, ModelAnswer, best_local

MODEL = ModelAnswer("walk", 0.9, 0.9, in_domain=True)
BASELINE = BaselineAnswer("normal", 1.0, 0.7)
LAST = Known("run", 0.8, 0.8, 100.0)
ORDER = [Tier.RULE, Tier.MODEL, Tier.BASELINE, Tier.LAST_KNOWN]


def answer(*, breach=False, model=None, absent=Reason.NO_MODEL, baseline=None, last=None):
    return best_local(
        breach=breach, model=model, model_absent=absent, baseline=baseline, last=last, time_s=103.0
    )


@pytest.mark.parametrize("given", list(product([False, True], repeat=4)))
def test_there_is_always_an_answer_and_it_is_the_highest_tiers(given):
    breach, model, baseline, last = given
    found = answer(
        breach=breach,
        model=MODEL if model else None,
        baseline=BASELINE if baseline else None,
        last=LAST if last else None,
    )
    assert found.label
    assert 0 <= found.confidence <= 1
    expected = next((tier for tier, has in zip(ORDER, given, strict=True) if has), Tier.BASELINE)
    assert found.tier is expected
    assert found.mandatory is breach
    assert bool(found.reasons) is (expected is not Tier.MODEL)


def test_a_breach_overrules_a_sure_model_and_is_not_put_to_the_hub():
    found = answer(breach=True, model=MODEL)
    assert (found.tier, found.label, found.mandatory) == (Tier.RULE, "breach", True)
    assert found.reasons == (Reason.BREACH,)


def test_the_baseline_says_why_the_model_does_not_answer():
    for absent in (Reason.NO_MODEL, Reason.MODEL_FAILED, Reason.INCOMPLETE):
        assert answer(absent=absent, baseline=BASELINE).reasons == (absent,)


def test_the_previous_verdict_is_marked_stale_with_its_age():
    found = answer(last=LAST)
    assert (found.label, found.stale_ms, found.confidence) == ("run", 3000.0, 0.0)
    assert found.reasons == (Reason.NO_MODEL, Reason.WARMING_UP, Reason.STALE)


def test_a_breach_that_is_over_is_not_repeated():
    found = answer(last=Known("breach", 1.0, 1.0, 100.0))
    assert (found.tier, found.label) == (Tier.BASELINE, "unknown")


def test_an_age_is_never_negative():
    assert answer(last=Known("run", 0.8, 0.8, 999.0)).stale_ms == 0.0


def test_the_first_window_of_all_is_unknown_and_says_why():
    found = answer()
    assert (found.label, found.confidence) == ("unknown", 0.0)
    assert found.reasons == (Reason.NO_MODEL, Reason.WARMING_UP)


def test_a_window_out_of_domain_says_so():
    found = answer(model=ModelAnswer("walk", 0.9, 0.9, in_domain=False))
    assert found.reasons == (Reason.OUT_OF_DOMAIN,)
    assert not found.in_domain
