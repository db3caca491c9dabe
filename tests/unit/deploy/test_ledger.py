"""deploy/demo/ledger: sent, acknowledged, stored."""

from hypothesis import given
from hypothesis import strategies as st

from deploy.demo.ledger import compare, reading_key

KEYS = [reading_key("d", "s", float(n)) for n in range(10)]


def test_equal_ledgers_lose_nothing():
    ledger = compare(sent=10, acknowledged=KEYS, stored=KEYS, declared_gaps={})
    assert (ledger.sent, ledger.acknowledged, ledger.stored) == (10, 10, 10)
    assert (ledger.lost, ledger.duplicate, ledger.phantom) == (0, 0, 0)


def test_a_reading_that_is_not_stored_is_lost():
    assert compare(sent=10, acknowledged=KEYS, stored=KEYS[1:], declared_gaps={}).lost == 1


def test_a_declared_gap_is_no_loss():
    assert compare(sent=10, acknowledged=KEYS, stored=KEYS[2:], declared_gaps={"d": 2}).lost == 0


def test_a_gap_of_one_device_hides_no_loss_of_another():
    other = [reading_key("e", "s", float(n)) for n in range(10)]
    ledger = compare(
        sent=20, acknowledged=KEYS + other, stored=KEYS + other[3:], declared_gaps={"d": 5}
    )
    assert (ledger.declared_gaps, ledger.lost) == (5, 3)


def test_losses_beyond_the_gaps_of_each_device_are_summed():
    other = [reading_key("e", "s", float(n)) for n in range(10)]
    ledger = compare(
        sent=20,
        acknowledged=KEYS + other,
        stored=KEYS[4:] + other[3:],
        declared_gaps={"d": 1, "e": 2},
    )
    assert (ledger.declared_gaps, ledger.lost) == (3, 4)


def test_a_loss_is_not_hidden_by_a_duplicate():
    ledger = compare(sent=10, acknowledged=KEYS, stored=[*KEYS[1:], KEYS[5]], declared_gaps={})
    assert (ledger.lost, ledger.duplicate) == (1, 1)


def test_a_loss_is_not_hidden_by_a_phantom():
    stored = [*KEYS[1:], reading_key("d", "other", 0.0)]
    ledger = compare(sent=10, acknowledged=KEYS, stored=stored, declared_gaps={})
    assert (ledger.lost, ledger.phantom) == (1, 1)


def test_what_was_sent_and_not_acknowledged_may_be_stored():
    ledger = compare(sent=10, acknowledged=KEYS[:9], stored=KEYS, declared_gaps={})
    assert (ledger.acknowledged, ledger.lost, ledger.phantom) == (9, 0, 0)


def test_times_are_told_apart_to_the_microsecond():
    assert reading_key("d", "s", 1_796_000_000.000001) != reading_key(
        "d", "s", 1_796_000_000.000002
    )


@given(
    kept=st.sets(st.integers(0, 99)),
    twice=st.lists(st.integers(0, 99), max_size=20),
)
def test_losses_and_duplicates_are_exact(kept, twice):
    sent = [reading_key("d", "s", float(n)) for n in range(100)]
    stored = [sent[n] for n in kept] + [sent[n] for n in twice if n in kept]
    ledger = compare(sent=100, acknowledged=sent, stored=stored, declared_gaps={})
    assert ledger.lost == 100 - len(kept)
    assert ledger.duplicate == sum(n in kept for n in twice)
