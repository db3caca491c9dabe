from dataclasses import replace

import numpy as np

from edge_agent.sources.redelivery import KEPT_IDS, Redelivery
from edge_agent.types import MessageBatch
from tests.fakes.batches import message_batch

ITEMS = [("a/1", {"flow": 1}), ("a/2", {"flow": 2}), ("a/1", {"flow": 3})]
SENT = message_batch(ITEMS)
AGAIN = message_batch(ITEMS, dup=True)


def test_new_messages_all_pass_and_their_ids_are_to_be_stored():
    sifted = Redelivery().sift(SENT)
    assert sifted.fresh is SENT
    assert sifted.repeated == 0
    assert sifted.packets is not None
    assert sifted.packets.session == "twin"
    assert sifted.packets.mids.tolist() == [1, 2, 3]
    assert len(set(sifted.packets.hashes.tolist())) == 3


def test_a_repeat_of_the_same_content_is_dropped():
    known = Redelivery()
    known.sift(SENT)
    sifted = known.sift(AGAIN)
    assert (len(sifted.fresh), sifted.repeated, sifted.packets) == (0, 3, None)


def test_a_repeat_among_new_messages_is_taken_out_alone():
    known = Redelivery()
    known.sift(message_batch(ITEMS[:1]))
    mixed = replace(SENT, dup=[True, False, True])
    sifted = known.sift(mixed)
    assert sifted.fresh.topics == ["a/2", "a/1"]
    assert sifted.fresh.payloads == SENT.payloads[1:]
    assert sifted.fresh.mids == [2, 3]
    assert sifted.fresh.arrivals_s.tolist() == SENT.arrivals_s[1:].tolist()
    assert sifted.fresh.arrivals_ns.tolist() == SENT.arrivals_ns[1:].tolist()
    assert (sifted.fresh.dup, sifted.fresh.qos, sifted.fresh.retained) == (
        [False, True],
        [1, 1],
        [False, False],
    )
    assert sifted.packets is not None
    assert sifted.packets.mids.tolist() == [2, 3]


def test_a_repeat_that_was_never_seen_is_new():
    sifted = Redelivery().sift(AGAIN)
    assert (len(sifted.fresh), sifted.repeated) == (3, 0)


def test_an_id_with_another_content_is_another_message_even_as_a_repeat():
    known = Redelivery()
    known.sift(message_batch([("a", {"flow": 1})]))
    for other in (("a", {"flow": 2}), ("b", {"flow": 1})):
        assert known.sift(message_batch([other], dup=True)).repeated == 0
        assert known.sift(message_batch([other], dup=True)).repeated == 1


def test_an_id_that_is_used_anew_is_a_new_message_even_with_the_same_content():
    known = Redelivery()
    known.sift(message_batch(ITEMS[:1]))
    assert known.sift(message_batch(ITEMS[:1])).repeated == 0


def test_an_id_that_was_used_anew_no_longer_stands_for_the_old_content():
    known = Redelivery()
    known.sift(message_batch([("a", b"old")]))
    known.sift(message_batch([("a", b"new")]))
    assert known.sift(message_batch([("a", b"old")], dup=True)).repeated == 0


def test_the_border_of_topic_and_payload_counts():
    known = Redelivery()
    known.sift(message_batch([("ab", b"c")]))
    assert known.sift(message_batch([("a", b"bc")], dup=True)).repeated == 0


def test_qos_0_is_never_remembered_and_never_dropped():
    known = Redelivery()
    for dup in (False, True):
        sifted = known.sift(message_batch(ITEMS, qos=0, dup=dup))
        assert (len(sifted.fresh), sifted.packets) == (3, None)


def test_sessions_have_their_own_ids():
    known = Redelivery()
    known.sift(SENT)
    assert known.sift(message_batch(ITEMS, dup=True, session="other")).repeated == 0


def test_what_was_stored_is_known_after_a_restart_the_newest_content_of_an_id_wins():
    before = Redelivery()
    first = before.sift(message_batch([("a", b"old"), ("b", b"kept")])).packets
    second = before.sift(message_batch([("a", b"new")])).packets
    assert first is not None
    assert second is not None
    after = Redelivery()
    after.restore((first, second))
    assert after.sift(message_batch([("a", b"new"), ("b", b"kept")], dup=True)).repeated == 2
    assert after.sift(message_batch([("a", b"old")], dup=True)).repeated == 0


def test_a_topic_that_is_no_text_is_told_apart_by_its_payload():
    known = Redelivery()
    known.sift(message_batch([(None, b"x")]))
    assert known.sift(message_batch([(None, b"x")], dup=True)).repeated == 1


def test_the_ids_that_are_kept_are_bounded():
    known = Redelivery()
    for start in range(1, 200_001, 20_000):
        batch = message_batch([("a", b"%d" % n) for n in range(start, start + 20_000)])
        known.sift(replace(batch, mids=[(start + n) % 65535 + 1 for n in range(20_000)]))
    assert len(known._known["twin"]) == KEPT_IDS
    packets = known.sift(replace(message_batch([("a", b"x")]), mids=[65535])).packets
    assert packets is not None
    assert packets.mids.dtype == np.uint16
    assert packets.mids.tolist() == [65535]


def _one(mid: int, *, dup: bool, payload: bytes = b"21.5", new_session: bool = False):
    return MessageBatch(
        session="s",
        topics=["a"],
        payloads=[payload],
        qos=[1],
        mids=[mid],
        dup=[dup],
        retained=[False],
        arrivals_s=np.zeros(1),
        arrivals_ns=np.zeros(1, dtype=np.int64),
        new_session=new_session,
    )


def test_an_id_of_half_the_id_space_ago_is_another_message():
    """Its first delivery died with the agent; the sensor always says the same."""
    redelivery = Redelivery()
    redelivery.sift(_one(7, dup=False))
    for mid in range(100, 100 + KEPT_IDS):
        redelivery.sift(_one(mid, dup=False, payload=b"%d" % mid))
    sifted = redelivery.sift(_one(7, dup=True))
    assert (sifted.repeated, len(sifted.fresh)) == (0, 1)


def test_a_session_that_began_anew_knows_no_old_id_also_after_a_restart():
    stored = []
    redelivery = Redelivery()
    stored.append(redelivery.sift(_one(1, dup=False)).packets)
    anew = redelivery.sift(_one(2, dup=False, payload=b"x", new_session=True))
    stored.append(anew.packets)
    assert redelivery.sift(_one(1, dup=True)).repeated == 0
    restarted = Redelivery()
    restarted.restore(tuple(each for each in stored if each is not None))
    assert restarted.sift(_one(1, dup=True)).repeated == 0
    assert restarted.sift(_one(2, dup=True, payload=b"x")).repeated == 1
