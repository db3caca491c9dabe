from contract.messages import Watermark
from contract.status import Lane, RowClass
from edge_agent.outbox.bucket import TokenBucket
from edge_agent.outbox.cursor import Cursor, merged
from edge_agent.outbox.packing import Message, Sender, pack
from edge_agent.types import StoredRow


def message(first: int, last: int) -> Message:
    rows = tuple(StoredRow(n, RowClass.RAW, b"x", 1, "", 0.0) for n in range(first, last + 1))
    return pack(rows, lane=Lane.TEL, after=first - 1, sender=Sender("d", "e"))


def test_sent_moves_only_over_what_was_acknowledged_without_a_hole():
    cursor = Cursor(sent=0)
    assert not cursor.finish(10, 20)
    assert cursor.sent == 0
    assert cursor.finish(0, 10)
    assert cursor.sent == 20


def test_a_repeated_acknowledgement_changes_nothing():
    cursor = Cursor(sent=20)
    assert not cursor.finish(10, 20)
    assert cursor.sent == 20


def test_what_goes_again_goes_in_order():
    cursor = Cursor(sent=0)
    for one in (message(7, 9), message(1, 3), message(4, 6)):
        cursor.send_again(one)
    assert [one.last for one in cursor.waiting] == [3, 6, 9]


def test_what_the_hub_holds_is_not_sent_again():
    cursor = Cursor(sent=0)
    cursor.send_again(message(1, 3))
    cursor.send_again(message(4, 6))
    cursor.finish(6, 9)
    cursor.applied(6)
    assert cursor.waiting == []
    assert (cursor.sent, cursor.position) == (9, 6)


def test_a_missing_range_goes_again_at_once_when_nothing_is_pending():
    cursor = Cursor(sent=100)
    cursor.repair(Watermark("e", 10, ((11, 20), (40, 41))), reported_sent=100)
    assert cursor.repairs == [(11, 20), (40, 41)]


def test_a_missing_range_goes_again_when_it_is_missing_twice():
    cursor = Cursor(sent=100)
    watermark = Watermark("e", 10, ((11, 20),), pending=5)
    cursor.repair(watermark, reported_sent=100)
    assert cursor.repairs == []
    cursor.repair(watermark, reported_sent=100)
    assert cursor.repairs == [(11, 20)]


def test_a_tail_that_never_arrived_goes_again_after_two_answers():
    cursor = Cursor(sent=100)
    for _ in range(2):
        assert cursor.repairs == []
        cursor.repair(Watermark("e", 60), reported_sent=90)
    assert cursor.repairs == [(61, 90)]


def test_an_answer_that_moves_on_is_not_suspect():
    cursor = Cursor(sent=100)
    cursor.repair(Watermark("e", 60), reported_sent=90)
    cursor.repair(Watermark("e", 80), reported_sent=100)
    cursor.repair(Watermark("e", 100), reported_sent=100)
    assert cursor.repairs == []


def test_a_repair_in_parts_goes_on_where_it_stopped():
    cursor = Cursor(sent=100)
    cursor.repairs = [(11, 50), (70, 70)]
    assert cursor.take_repair() == (11, 50)
    cursor.put_back(31, 50)
    assert cursor.repairs == [(31, 50), (70, 70)]
    assert cursor.take_repair() == (31, 50)
    cursor.put_back(51, 50)
    assert cursor.repairs == [(70, 70)]


def test_ranges_merge_when_they_touch():
    assert merged([(5, 7), (1, 2), (3, 4), (20, 21), (6, 9)]) == [(1, 9), (20, 21)]


def test_a_bucket_lets_a_second_through_and_then_makes_wait():
    bucket = TokenBucket(bytes_per_s=1000, now_s=0.0)
    bucket.take(1500, now_s=0.0)
    assert 0.5 <= bucket.free_at_s() <= 0.51
    bucket.take(100, now_s=1.0)
    assert bucket.free_at_s() <= 1.0


def test_a_bucket_without_a_rate_never_waits():
    bucket = TokenBucket(bytes_per_s=0, now_s=0.0)
    bucket.take(10**9, now_s=5.0)
    assert bucket.free_at_s() <= 5.0
