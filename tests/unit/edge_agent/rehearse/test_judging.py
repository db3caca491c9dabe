"""rehearse/judging: what is called lost, twice and phantom."""

from collections import Counter
from typing import Any

from edge_agent.rehearse.judging import objections, settle

KEYS = {("s", float(number)) for number in range(10)}


def _account(**changes):
    given: dict[str, Any] = {
        "sent": KEYS,
        "acknowledged": KEYS,
        "stored": Counter(KEYS),
        "declared": 0,
    } | changes
    return settle(**given)


def test_all_stored_once_is_no_objection():
    assert objections(_account(), at_least=10) == []


def test_lost_is_acknowledged_less_stored_less_declared():
    stored = Counter(sorted(KEYS)[3:])
    assert _account(stored=stored).lost == 3
    assert _account(stored=stored, declared=2).lost == 1
    assert objections(_account(stored=stored, declared=3), at_least=10) == []
    assert "neither stored nor declared" in objections(_account(stored=stored), at_least=10)[0]


def test_declaring_more_than_is_missing_is_an_objection():
    assert _account(declared=4).lost == -4
    assert "4 more readings are declared" in objections(_account(declared=4), at_least=10)[0]


def test_a_reading_that_was_sent_and_not_acknowledged_may_be_stored():
    account = _account(acknowledged=set(sorted(KEYS)[1:]))
    assert (account.lost, account.phantom, account.duplicate) == (0, 0, 0)


def test_twice_and_phantom():
    stored = Counter(KEYS)
    stored["s", 1.0] += 2
    stored["s", 99.0] += 1
    account = _account(stored=stored)
    assert (account.duplicate, account.phantom) == (2, 1)
    assert len(objections(account, at_least=10)) == 2


def test_too_few_readings_prove_nothing():
    assert "only 10 readings" in objections(_account(), at_least=1000)[0]
