"""A repeat under a new id: its content is known, its id is not."""

from edge_agent.sources.redelivery import Redelivery
from tests.fakes.batches import message_batch

ITEMS = [("a/1", {"flow": 1}), ("a/2", {"flow": 2}), ("a/1", {"flow": 3})]


def test_a_repeat_under_a_new_id_is_a_suspect_and_stays_in_the_batch():
    known = Redelivery()
    known.sift(message_batch(ITEMS[:2]))
    sifted = known.sift(message_batch(ITEMS, first_mid=50, dup=True))
    assert sifted.fresh.mids == [50, 51, 52]
    assert sifted.suspects == {0, 1}
    assert sifted.repeated == 0


def test_suspects_are_counted_among_the_fresh_ones():
    known = Redelivery()
    known.sift(message_batch(ITEMS[:1]))  # id 1
    batch = message_batch([*ITEMS[:1], ITEMS[1], ITEMS[0]], dup=True)  # ids 1, 2, 3
    sifted = known.sift(batch)
    assert sifted.repeated == 1
    assert sifted.fresh.mids == [2, 3]
    assert sifted.suspects == {1}


def test_a_message_that_is_no_repeat_is_never_a_suspect():
    known = Redelivery()
    known.sift(message_batch(ITEMS))
    assert known.sift(message_batch(ITEMS, first_mid=50)).suspects == frozenset()


def test_the_second_of_two_equal_repeats_under_new_ids_is_a_suspect():
    sifted = Redelivery().sift(message_batch([ITEMS[0], ITEMS[0]], dup=True))
    assert sifted.suspects == {1}
