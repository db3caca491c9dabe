"""The oracle finds whatever is planted, and nothing where nothing is."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.faults.ledger import DeclaredGap, StoredEvent, StoredGroup, balance

EPOCH = "e1"
STREAMS = ("sim/0", "sim/1")
PER_GROUP = 4
GROUPS = 6


def times_of(group: int) -> tuple[float, ...]:
    return tuple(float(group * PER_GROUP + index) for index in range(PER_GROUP))


STORED = [
    StoredGroup(EPOCH, 1 + group * len(STREAMS) + number, 0, stream, times_of(group))
    for group in range(GROUPS)
    for number, stream in enumerate(STREAMS)
]
SENT = [(group.stream, time) for group in STORED for time in group.times]
MISSING = STORED[4]


def without(*seqs: int) -> list[StoredGroup]:
    return [group for group in STORED if group.seq not in seqs]


def gap(first: int, last: int, *, readings: int, stride: int = 1) -> DeclaredGap:
    return DeclaredGap(EPOCH, first, last, stride, readings, "shed")


def test_a_whole_ledger_has_no_fault():
    found = balance(SENT, STORED)
    assert found.faults() == []
    assert (found.acknowledged, found.stored, found.lost) == (48, 48, 0)


def test_a_planted_loss_is_found_and_named():
    found = balance(SENT, without(MISSING.seq))
    assert found.lost == PER_GROUP
    assert found.holes == 1, "its row number is accounted for by nobody"
    assert str(SENT[SENT.index((MISSING.stream, MISSING.times[0]))]) in found.faults()[-1]


def test_one_reading_lost_inside_a_row_is_found():
    shortened = StoredGroup(EPOCH, MISSING.seq, 0, MISSING.stream, MISSING.times[1:])
    found = balance(SENT, [*without(MISSING.seq), shortened])
    assert (found.lost, found.holes) == (1, 0)


def test_a_loss_that_is_declared_is_none():
    found = balance(SENT, without(MISSING.seq), [gap(MISSING.seq, MISSING.seq, readings=PER_GROUP)])
    assert found.faults() == []
    assert (found.missing, found.declared) == (PER_GROUP, PER_GROUP)


def test_a_gap_that_declares_too_little_is_a_loss():
    declared = [gap(MISSING.seq, MISSING.seq, readings=PER_GROUP - 1)]
    assert balance(SENT, without(MISSING.seq), declared).lost == 1


def test_a_gap_that_declares_what_is_there_is_found():
    found = balance(SENT, STORED, [gap(MISSING.seq, MISSING.seq, readings=PER_GROUP)])
    assert found.overstated == PER_GROUP
    assert any("not missing" in fault for fault in found.faults())


def test_a_reading_that_is_stored_twice_is_found_in_whichever_row():
    again = StoredGroup(EPOCH, STORED[-1].seq + 1, 0, "sim/0", (STORED[-2].times[-1],))
    found = balance(SENT, [*STORED, again])
    assert found.duplicate == 1
    assert found.lost == found.phantom == 0


def test_a_reading_that_nobody_sent_is_found_unless_it_may_have_been_sent():
    extra = StoredGroup(EPOCH, STORED[-1].seq + 1, 0, "sim/0", (999.0,))
    assert balance(SENT, [*STORED, extra]).phantom == 1
    assert balance(SENT, [*STORED, extra], also_sent=[("sim/0", 999.0)]).faults() == []


def test_readings_that_change_places_are_found():
    first, second = STORED[0], STORED[2]
    swapped = [
        replace_times(first, second.times),
        STORED[1],
        replace_times(second, first.times),
        *STORED[3:],
    ]
    assert balance(SENT, swapped).order_errors == PER_GROUP
    assert balance(SENT, list(reversed(STORED))).order_errors == 0, "rows have numbers, not places"


def replace_times(group: StoredGroup, times: tuple[float, ...]) -> StoredGroup:
    return group._replace(times=times)


def test_a_fresh_epoch_begins_its_order_anew():
    old = StoredGroup("e0", 1, 0, "sim/0", (500.0,))
    assert balance([*SENT, ("sim/0", 500.0)], [old, *STORED]).faults() == []


def test_events_out_of_order_are_found_within_a_stream_only():
    events = [StoredEvent(EPOCH, 1, "a", 2.0), StoredEvent(EPOCH, 2, "b", 1.0)]
    assert balance(SENT, STORED, events=events).order_errors == 0
    late = StoredEvent(EPOCH, 3, "a", 1.5)
    assert balance(SENT, STORED, events=[*events, late]).order_errors == 1


def test_a_number_that_nobody_declares_is_a_hole_and_a_row_of_another_kind_is_none():
    assert balance(SENT[:-4], without(STORED[-2].seq)).holes == 1
    rows = [(EPOCH, STORED[-2].seq)]
    assert balance(SENT[:-4], without(STORED[-2].seq), rows=rows).holes == 0


def test_a_gap_behind_the_last_row_is_accounted_for_and_a_hole_before_it_is_not():
    behind = gap(STORED[-1].seq + 2, STORED[-1].seq + 3, readings=0)
    assert balance(SENT, STORED, [behind]).holes == 1


def test_thinning_covers_the_numbers_that_its_stride_does_not_divide():
    thinned = gap(1, 12, readings=6 * PER_GROUP, stride=2)
    kept = [group for group in STORED if group.seq % 2 == 0]
    assert balance(SENT, kept, [thinned]).faults() == []
    assert balance(SENT, kept[:-1], [thinned]).holes == 1


@given(st.sets(st.integers(0, len(SENT) - 1)), st.integers(0, 60))
def test_lost_is_what_is_missing_beyond_what_is_declared(gone: set[int], declared: int):
    taken = {SENT[index] for index in gone}
    stored = [
        replace_times(group, tuple(t for t in group.times if (group.stream, t) not in taken))
        for group in STORED
    ]
    found = balance(SENT, stored, [gap(100, 100, readings=declared)])
    assert found.missing == len(gone)
    assert found.lost == max(0, len(gone) - declared)
    assert found.overstated == max(0, declared - len(gone))


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_every_copy_counts(copies: int):
    again = [STORED[0]._replace(seq=100 + number) for number in range(copies)]
    assert balance(SENT, [*STORED, *again]).duplicate == copies * PER_GROUP


def test_two_balances_of_the_same_ledgers_are_equal():
    assert balance(SENT, STORED) == balance(list(reversed(SENT)), STORED)
    assert replace(balance(SENT, STORED), stored=0) != balance(SENT, STORED)
    assert all(before.seq < after.seq for before, after in pairwise(STORED))
