from contract.messages import Gap
from contract.status import Lane
from edge_agent.outbox.gaps import Dropped, covers, joined, stretches, uncovered


def dropped(*seqs: int) -> list[Dropped]:
    return [Dropped(seq, 10) for seq in seqs]


def test_rows_dropped_in_a_row_are_one_gap():
    gaps = stretches(dropped(3, 4, 5), held=[], lane=Lane.TEL, stride=1, reason="quota")
    assert gaps == [Gap(Lane.TEL, 3, 5, 1, 30, "quota")]


def test_a_row_that_is_kept_splits_a_gap():
    gaps = stretches(dropped(3, 5), held=[4], lane=Lane.TEL, stride=1, reason="quota")
    assert [(gap.first, gap.last) for gap in gaps] == [(3, 3), (5, 5)]


def test_thinning_to_every_second_row_is_one_gap():
    gaps = stretches(
        dropped(1, 3, 5, 7), held=[2, 4, 6, 8], lane=Lane.TEL, stride=2, reason="quota"
    )
    assert gaps == [Gap(Lane.TEL, 1, 7, 2, 40, "quota")]
    assert [seq for seq in range(10) if covers(gaps[0], seq)] == [1, 3, 5, 7]


def test_a_rollup_between_thinned_rows_is_never_covered():
    gaps = stretches(dropped(1, 5, 7), held=[2, 3, 4, 6], lane=Lane.TEL, stride=2, reason="quota")
    assert [(gap.first, gap.last, gap.readings) for gap in gaps] == [(1, 1, 10), (5, 7, 20)]


def test_thinning_again_covers_what_was_thinned_before_too():
    (gap,) = stretches(dropped(2, 6, 10), held=[4, 8], lane=Lane.TEL, stride=4, reason="quota")
    assert (gap.first, gap.last, gap.readings) == (2, 10, 30)
    assert not covers(gap, 4)
    assert not covers(gap, 8)


def test_only_records_of_one_kind_join():
    old = Gap(Lane.TEL, 1, 5, 1, 10, "quota")
    assert joined(old, Gap(Lane.TEL, 6, 9, 1, 4, "quota")) == Gap(Lane.TEL, 1, 9, 1, 14, "quota")
    assert joined(old, Gap(Lane.TEL, 6, 9, 2, 4, "quota")) is None
    assert joined(old, Gap(Lane.TEL, 6, 9, 1, 4, "age")) is None
    assert joined(old, Gap(Lane.EVT, 6, 9, 1, 4, "quota")) is None
    assert joined(old, Gap(Lane.TEL, 2, 3, 1, 4, "quota")) is None


def test_numbers_that_nobody_has_come_in_runs():
    gaps = [Gap(Lane.TEL, 5, 6, 1, 0, "quota")]
    runs = uncovered(1, 10, held=[1, 2, 8], gaps=gaps)
    assert [(run[0], run[-1]) for run in runs] == [(3, 4), (7, 7), (9, 10)]
