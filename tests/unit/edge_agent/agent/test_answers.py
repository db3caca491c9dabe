from dataclasses import replace

import pytest

from contract.encoding import encode
from contract.messages import InferAnswer
from contract.status import Reason, Status, Tier
from edge_agent.agent.answers import from_here, from_hub, read_answer, revisions
from edge_agent.types import Reply
from tests.fakes.asks import ask_of

ASK = ask_of(1, 2)
ANSWER = InferAnswer("tiny", 9, ("a", "b"), (0.1, 0.2), (0.8, 0.9))


def test_an_answer_for_every_window_is_read():
    assert read_answer(ASK, Reply(Status.OK, encode(ANSWER))) == ANSWER


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (Status.BUSY, Reason.HUB_BUSY),
        (Status.EXPIRED, Reason.HUB_TIMEOUT),
        (Status.CANCELLED, Reason.HUB_TIMEOUT),
        (Status.BAD_INPUT, Reason.HUB_REFUSED),
        (Status.NO_MODEL, Reason.HUB_REFUSED),
        (Status.TOO_LARGE, Reason.HUB_REFUSED),
        (Status.INTERNAL, Reason.HUB_REFUSED),
    ],
)
def test_every_status_but_ok_has_its_reason(status, reason):
    assert read_answer(ASK, Reply(status, encode(ANSWER))) is reason


@pytest.mark.parametrize(
    "answer",
    [
        InferAnswer("tiny", 9),
        InferAnswer("tiny", 9, ("a",), (0.1,), (0.8,)),
        InferAnswer("tiny", 9, ("a", "b"), (0.1, 0.2), (0.8,)),
        InferAnswer("tiny", 9, ("a", "b"), (0.1, float("inf")), (0.8, 0.9)),
        InferAnswer("tiny", 9, ("a", "b"), (0.1, 0.2), (float("nan"), 0.9)),
        InferAnswer("tiny", 9, ("a", "b"), (0.1, 0.2), (57.0, 0.9)),
        InferAnswer("tiny", 9, ("a", "</script>"), (0.1, 0.2), (0.8, 0.9)),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(answer):
    assert read_answer(ASK, Reply(Status.OK, encode(answer))) is Reason.HUB_REFUSED


def test_a_verdict_keeps_its_identity_whoever_answers():
    for found in (
        from_hub(ASK, ANSWER, hub_ms=5.0),
        from_here(ASK, Reason.HUB_TIMEOUT, hub_ms=5.0),
    ):
        assert [v.id for v in found] == [v.id for v in ASK.verdicts]
        assert [v.number for v in found] == [1, 2]
        assert all(v.stages_ms == {"decode": 0.1, "hub": 5.0} for v in found)
    assert [v.tier for v in from_hub(ASK, ANSWER, hub_ms=5.0)] == [Tier.HUB] * 2
    assert from_here(ASK, Reason.HUB_TIMEOUT, hub_ms=5.0)[0].label == "local"


def test_a_verdict_without_stages_gets_none():
    ask = replace(ASK, verdicts=[replace(v, stages_ms={}) for v in ASK.verdicts])
    assert from_here(ask, hub_ms=5.0)[0].stages_ms == {}


def test_a_revision_names_the_verdict_and_who_says_better():
    first, second = revisions(ASK, ANSWER)
    assert (first.verdict, first.label, first.score, first.confidence) == (
        "pump/a-1",
        "a",
        0.1,
        0.8,
    )
    assert (second.model, second.release, second.seq) == ("tiny", 9, 0)
