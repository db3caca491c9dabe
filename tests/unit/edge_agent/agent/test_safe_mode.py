"""What the third start leaves out: the least that explains two failures in a row."""

import pytest

from edge_agent.agent.safe_mode import Plan, Spool, both, go_on, make_plan
from edge_agent.agent.starts import Failure, Phase, Replaced

MODEL = Failure(Phase.MODEL, "models/a", "Segmentation fault")
OUTBOX = Failure(Phase.OUTBOX, "", "SQLITE_CORRUPT")
WRONG = Failure(Phase.CONFIGURATION, "", "[device] name: absent")
KILLED = Failure(Phase.RUNNING, "", "killed")


@pytest.mark.parametrize("failures", [[], [MODEL], [OUTBOX], [WRONG]])
def test_one_failure_changes_nothing(failures):
    assert make_plan(failures, good_differs=True) == Plan()


def test_a_model_that_failed_twice_is_left_out_and_nothing_else():
    plan = make_plan([MODEL, MODEL], good_differs=True, packages=["models/a", "models/b"])
    assert plan.without == ("model models/a",)
    assert "Segmentation fault" in plan.why[0]


def test_two_models_that_fail_in_turn_are_both_left_out():
    other = Failure(Phase.MODEL, "models/b", "SIGILL")
    assert make_plan([MODEL, other], good_differs=False).models == {"models/a", "models/b"}


def test_a_crash_of_an_unnamed_model_leaves_all_models_out():
    unnamed = Failure(Phase.MODEL, "", "Segmentation fault while a model ran")
    plan = make_plan([unnamed, unnamed], good_differs=False, packages=["models/a", "models/b"])
    assert plan.models == {"models/a", "models/b"}


def test_an_outbox_that_failed_twice_is_salvaged_and_then_begun_empty():
    assert make_plan([OUTBOX, OUTBOX], good_differs=True).spool is Spool.SALVAGE
    assert make_plan([OUTBOX] * 3, good_differs=True).spool is Spool.EMPTY


@pytest.mark.parametrize("failure", [WRONG, KILLED, Failure(Phase.SERVING, "", "port taken")])
def test_a_newer_configuration_that_fails_gives_way_to_the_one_that_ran_well(failure):
    assert make_plan([failure, failure], good_differs=True).without == ("configuration",)


@pytest.mark.parametrize("failure", [WRONG, KILLED])
def test_without_another_configuration_a_start_is_as_always(failure):
    assert not make_plan([failure] * 5, good_differs=False).careful


def test_different_causes_are_no_pattern():
    assert not make_plan([MODEL, OUTBOX], good_differs=False).careful


def test_safe_mode_goes_on_until_the_package_is_installed_anew():
    replaced = Replaced(models={"models/a": "1", "models/b": "1"}, reasons=("why",))
    prints = {"models/a": "1", "models/b": "2"}
    plan = go_on(replaced, good_there=False, fingerprint=prints.__getitem__)
    assert plan.models == {"models/a"}
    assert plan.why == ("why",)
    assert not go_on(replaced, good_there=False, fingerprint=lambda _: "3").careful


def test_safe_mode_goes_on_with_the_good_configuration_while_there_is_one():
    replaced = Replaced(good_configuration=True, reasons=("why",))
    assert go_on(replaced, good_there=True, fingerprint=str).good_configuration
    assert not go_on(replaced, good_there=False, fingerprint=str).careful


def test_what_fails_in_safe_mode_is_left_out_too():
    first = Plan(good_configuration=True, why=("a",))
    plan = both(first, make_plan([MODEL, MODEL], good_differs=True))
    assert plan.without == ("configuration", "model models/a")
    assert plan.why[0] == "a"
