from contract.status import RowClass
from edge_agent.outbox.budgets import budgets_of
from edge_agent.outbox.retention import (
    CHUNK_ROWS,
    SHED_ORDER,
    moved,
    next_cut,
    over_budget,
    raw_cut,
)
from edge_agent.settings import BudgetSettings


def test_raw_goes_first_and_alarms_last():
    assert SHED_ORDER[0] is RowClass.RAW
    assert SHED_ORDER[-1] is RowClass.ALARM
    assert RowClass.GAP not in SHED_ORDER


def test_raw_is_thinned_before_it_is_dropped():
    cut = raw_cut([0] * 5, base=0, limit=100_000)
    assert cut is not None
    assert (cut.after, cut.upto, cut.stride) == (0, CHUNK_ROWS, 2)


def test_repeated_thinning_keeps_the_newest_whole_and_the_oldest_coarsest():
    cuts = [0] * 5
    for _ in range(80):
        cut = raw_cut(cuts, base=0, limit=20_000)
        assert cut is not None
        cuts = moved(cuts, cut)
    assert cuts == sorted(cuts, reverse=True)
    assert 20_000 > cuts[0] > cuts[1] > cuts[2]


def test_in_the_end_everything_is_dropped_and_then_nothing_is_left():
    cuts = [0] * 5
    steps = 0
    while (cut := raw_cut(cuts, base=0, limit=5_000)) is not None:
        cuts = moved(cuts, cut)
        steps += 1
        assert steps < 1000
    assert cuts[-1] == 5_000


def test_rows_beyond_the_limit_are_never_touched():
    cut = raw_cut([0] * 5, base=90, limit=100)
    assert cut is not None
    assert cut.after == 90
    assert cut.upto == 100
    assert raw_cut([0] * 5, base=100, limit=100) is None
    assert raw_cut([0] * 5, base=200, limit=100) is None


def test_an_exhausted_class_gives_way_to_the_next():
    cut = next_cut([0] * 5, raw_base=10, raw_limit=10)
    assert cut is not None
    assert cut.kind is RowClass.ROLLUP
    cut = next_cut([0] * 5, raw_base=10, raw_limit=10, exhausted={RowClass.ROLLUP})
    assert cut is not None
    assert cut.kind is RowClass.ESCALATION
    assert next_cut([0] * 5, raw_base=0, raw_limit=0, exhausted=set(SHED_ORDER)) is None


def test_a_class_over_its_share_is_named():
    shares = budgets_of(BudgetSettings()).shares
    held = {RowClass.RAW: 70, RowClass.ROLLUP: 31}
    assert over_budget(held, total_bytes=100, shares=shares) == [RowClass.ROLLUP]
