"""Whatever is stored, handed out and shed: what is gone is declared, exactly, and alarms stay."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from contract.encoding import decode
from contract.messages import Gap, Watermark
from contract.status import Lane, RowClass
from edge_agent.errors import StoreFull
from edge_agent.outbox.gaps import Dropped, covers, stretches
from edge_agent.outbox.head import MAX_LEVEL
from edge_agent.outbox.retention import moved, raw_cut
from edge_agent.outbox.spool import Spool
from edge_agent.outbox.transaction import Moment
from edge_agent.outbox.trimming import trim_due
from edge_agent.types import Commit, NewRow, Round

QUOTA_BYTES = 1024 * 1024

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"),
            st.integers(1, 40),
            st.sampled_from([30, 300, 5000]),
            st.integers(0, 3),
            st.booleans(),
        ),
        st.tuples(st.just("hand"), st.integers(1, 60)),
        st.tuples(st.just("apply"), st.floats(0, 1)),
        st.tuples(st.just("set_aside"), st.floats(0, 1)),
    ),
    min_size=30,
    max_size=90,
)


class Story:
    """Plays steps on a spool and remembers what was given to it."""

    def __init__(self, folder: Path) -> None:
        self.spool = Spool.open(folder / "spool.db", quota_bytes=QUOTA_BYTES, new_epoch="e")
        self.given: dict[Lane, dict[int, tuple[RowClass, int]]] = {lane: {} for lane in Lane}
        self.applied = dict.fromkeys(Lane, 0)
        self.at_hub: set[int] = set()
        self.age_s = 0.0
        self.gaps: dict[int, Gap] = {}

    def moment(self) -> Moment:
        self.age_s += 1.0
        return Moment(wall_s=1e9 + self.age_s, age_s=self.age_s)

    def write(self, count: int, size: int, others: int, whole: bool) -> None:
        rows = [NewRow(RowClass.RAW, b"r" * size, n % 7) for n in range(count)]
        rows += [NewRow(RowClass.ROLLUP, b"u" * 50)] * others
        rows += [NewRow(RowClass.ALARM, b"a" * 40)] * (others % 2)
        rows = rows[count // 2 :] + rows[: count // 2]
        commit = Commit(rows=tuple(rows), round=Round.WHOLE if whole else Round.NONE)
        before = {lane: mark.next_seq for lane, mark in self.spool.head.lanes.items()}
        try:
            self.spool.write([commit], self.moment())
        except StoreFull:
            self.spool.write([Commit(round=Round.WHOLE)], self.moment())
            return
        for row in rows:
            lane = row.kind.lane
            if lane is Lane.TEL:
                self.given[lane][before[lane]] = (row.kind, row.readings)
                before[lane] += 1
        self.note_events()

    def note_events(self) -> None:
        for row in self.held(Lane.EVT):
            if row.kind is RowClass.GAP:
                self.gaps[row.seq] = decode(row.body, Gap)

    def hand(self, rows: int) -> None:
        for lane in (Lane.EVT, Lane.TEL):
            after = self.spool.handed[lane]
            found, bad = self.spool.read(lane, after=after, max_bytes=1 << 30, max_rows=rows)
            assert not bad
            if found:
                self.spool.handed[lane] = found[-1].seq

    def apply(self, share: float) -> None:
        lane = Lane.TEL
        applied = int(self.spool.handed[lane] * share)
        if applied > self.applied[lane]:
            self.at_hub |= {row.seq for row in self.held(lane) if row.seq <= applied}
            self.applied[lane] = applied
            self.spool.apply(lane, Watermark("e", applied), self.moment())
        while trim_due(self.spool.head):
            self.spool.trim(self.moment())

    def set_aside(self, share: float) -> None:
        head = self.spool.head.lanes[Lane.TEL]
        seq = head.first + int((head.next_seq - head.first) * share)
        self.spool.set_aside(Lane.TEL, seq, reason="too_large", moment=self.moment())
        self.note_events()

    def held(self, lane: Lane):
        rows, bad = self.spool.read(lane, after=0, max_bytes=1 << 30, max_rows=1 << 20)
        assert not bad
        return rows


@settings(max_examples=40)
@given(steps)
def test_what_is_gone_is_declared_exactly(plan):
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder))
        alarms = 0
        for name, *arguments in plan:
            before = story.spool.head.classes[RowClass.ALARM].rows
            getattr(story, name)(*arguments)
            alarms += story.spool.head.classes[RowClass.ALARM].rows - before
        held = {row.seq: row.readings for row in story.held(Lane.TEL)}
        given_rows = story.given[Lane.TEL]
        gaps = [gap for gap in story.gaps.values() if gap.lane is Lane.TEL]
        lost = {seq for seq in given_rows if any(covers(gap, seq) for gap in gaps)}
        gone = {seq for seq in given_rows if seq not in held and seq > story.applied[Lane.TEL]}
        assert gone <= lost
        assert not lost & (set(held) | story.at_hub)
        assert all(given_rows[seq][1] == readings for seq, readings in held.items())
        # Rows that were applied went without a gap: every declared reading was in a row that is gone.
        declared = sum(gap.readings for gap in gaps)
        assert declared == sum(given_rows[seq][1] for seq in lost)
        head = story.spool.head
        assert sum(row.kind is RowClass.ALARM for row in story.held(Lane.EVT)) == alarms
        classes = head.classes
        assert classes[RowClass.RAW].rows + classes[RowClass.ROLLUP].rows == len(held)
        assert classes[RowClass.RAW].readings == sum(held.values())
        assert story.spool.db.pages_used() <= story.spool.db.page_limit
        story.spool.close()


@given(
    st.sets(st.integers(1, 300)),
    st.sets(st.integers(1, 300)),
    st.sampled_from([1, 2, 4, 8, 16]),
)
def test_gap_records_cover_all_that_was_dropped_and_nothing_that_is_held(dropped, held, stride):
    held -= dropped
    dropped = {seq for seq in dropped if stride == 1 or seq % stride}
    gaps = stretches(
        [Dropped(seq, seq) for seq in sorted(dropped)],
        held=sorted(held),
        lane=Lane.TEL,
        stride=stride,
        reason="quota",
    )
    covered = {seq for gap in gaps for seq in range(1, 301) if covers(gap, seq)}
    assert dropped <= covered
    assert not covered & held
    assert sum(gap.readings for gap in gaps) == sum(dropped)


@given(st.integers(0, 3000), st.lists(st.integers(0, 400), max_size=60))
def test_bands_stay_in_order_and_within_their_limits(base, growth):
    cuts = [0] * (MAX_LEVEL + 1)
    limit = base
    for more in growth:
        limit += more
        cut = raw_cut(cuts, base=base, limit=limit)
        if cut is None:
            assert limit == base or cuts[-1] >= limit
            continue
        assert base <= cut.after < cut.upto <= limit
        cuts = moved(cuts, cut)
        assert cuts == sorted(cuts, reverse=True)
