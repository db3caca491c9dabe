"""rehearse: the pure parts of the stand-ins: packets, sessions, frames, marks."""

import pytest

from contract.messages import Gap
from contract.status import Lane
from edge_agent.rehearse import mqtt_packets as mqtt
from edge_agent.rehearse.hub_marks import LaneMarks
from edge_agent.rehearse.mqtt_packets import BadPacket, Message, Splitter
from edge_agent.rehearse.mqtt_sessions import Sessions
from edge_agent.rehearse.nats_frames import (
    BadFrame,
    FrameReader,
    header_block,
    matches,
    message_frame,
)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 300_000])
def test_a_packet_of_any_size_comes_back_whole_from_any_pieces(size):
    packet = mqtt.publish(Message("a/b", b"x" * size, 1, retain=True), mid=7, dup=True)
    splitter = Splitter()
    found: list[tuple[int, int, bytes]] = []
    for start in range(0, len(packet), 997):
        found += splitter.feed(packet[start : start + 997])
    [(kind, flags, body)] = found
    message, mid = mqtt.read_publish(flags, body)
    assert (kind, flags & 8, mid) == (mqtt.PUBLISH, 8, 7)
    assert message == Message("a/b", b"x" * size, 1, retain=True)


@pytest.mark.parametrize(
    ("flags", "body"),
    [(4, b"\0\1a\0\1"), (2, b"\0\1a"), (0, b"\0\x05ab"), (0, b"\0\1#"), (0, b"\0\1\xff"), (0, b"")],
)
def test_a_publish_that_is_none_is_refused(flags, body):
    with pytest.raises(BadPacket):
        mqtt.read_publish(flags, body)


def test_a_length_of_five_bytes_is_refused():
    with pytest.raises(BadPacket):
        list(Splitter().feed(b"\x30\xff\xff\xff\xff\xff"))


def _listener(sessions, name="c", *, clean=False):
    got = []
    session, present = sessions.open(name, clean=clean)
    session.attach(lambda message, mid, dup: got.append((message.topic, message.payload, mid, dup)))
    return session, present, got


def test_what_was_not_acknowledged_comes_again_with_dup_and_the_same_id():
    sessions = Sessions()
    session, _, got = _listener(sessions)
    assert sessions.subscribe(session, "a/+", 1)
    for number in range(3):
        sessions.route(Message(f"a/{number}", b"x", 1, retain=False))
    session.acknowledged(got[0][2])
    session.detach()
    sessions.route(Message("a/late", b"x", 1, retain=False))
    again, present, redelivered = _listener(sessions)
    assert (again is session, present) == (True, True)
    assert [(topic, dup) for topic, _, _, dup in redelivered] == [
        ("a/1", True),
        ("a/2", True),
        ("a/late", False),
    ]
    assert [mid for *_, mid, _ in redelivered][:2] == [got[1][2], got[2][2]]


def test_a_clean_session_forgets_and_a_message_comes_once_whatever_filters_overlap():
    sessions = Sessions()
    session, _, got = _listener(sessions, clean=True)
    sessions.subscribe(session, "#", 0)
    sessions.subscribe(session, "a", 1)
    sessions.route(Message("a", b"x", 1, retain=False))
    assert len(got) == 1
    assert got[0][2] > 0
    fresh, present, _ = _listener(sessions, clean=True)
    assert not present
    assert fresh is not session


@pytest.mark.parametrize("pattern", ["", "a/#/b", "a+", "a/b#"])
def test_an_impossible_filter_is_refused(pattern):
    sessions = Sessions()
    session, _, _ = _listener(sessions)
    assert not sessions.subscribe(session, pattern, 1)


def test_a_retained_message_is_there_for_who_comes_later_until_it_is_cleared():
    sessions = Sessions()
    sessions.route(Message("s", b"on", 1, retain=True))
    session, _, got = _listener(sessions)
    sessions.subscribe(session, "s", 1)
    sessions.hand_retained(session, "s")
    assert [payload for _, payload, _, _ in got] == [b"on"]
    sessions.route(Message("s", b"", 1, retain=True))
    other, _, later = _listener(sessions, "other")
    sessions.subscribe(other, "s", 1)
    sessions.hand_retained(other, "s")
    assert later == []


def test_frames_come_back_whole_from_any_pieces():
    block = header_block({"A": "1", "Nats-Msg-Id": "x:y"})
    text = (
        message_frame("PUB", ("a.b", "r"), b"hello")
        + message_frame("PUB", ("a.b", ""), b"\r\nPING\r\n", block)
        + b"ping\r\n"
    )
    reader = FrameReader()
    frames = [frame for byte in text for frame in reader.feed(bytes([byte]))]
    assert [frame.op for frame in frames] == ["PUB", "PUB", "PING"]
    assert (frames[0].args, frames[0].body, frames[0].headers) == (("a.b", "r"), b"hello", None)
    assert (frames[1].args, frames[1].body) == (("a.b",), b"\r\nPING\r\n")
    assert frames[1].headers == {"A": "1", "Nats-Msg-Id": "x:y"}


@pytest.mark.parametrize("text", [b"PUB a\r\n", b"HPUB a 9 4\r\n", b"PUB a 99999999999\r\n"])
def test_a_frame_with_an_impossible_size_is_refused(text):
    with pytest.raises(BadFrame):
        list(FrameReader().feed(text))


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a.*", "a.b", True), ("a.*", "a.b.c", False), ("a.>", "a.b.c", True),
        ("a.>", "a", False), ("a", "a", True), ("a.b", "a.c", False), ("*.b", "a.b", True),
    ],
)  # fmt: skip
def test_subjects(pattern, subject, expected):
    assert matches(pattern, subject) is expected


def test_a_watermark_moves_over_rows_and_gaps_and_names_what_is_missing():
    marks = LaneMarks()
    for seq in (1, 2, 5, 6, 12):
        marks.add_row(seq)
    marks.advance()
    said = marks.watermark(epoch="e", pending=3)
    assert (said.applied, said.missing, said.pending) == (2, ((3, 4), (7, 11)), 3)
    marks.add_gap(Gap(Lane.TEL, 3, 4, 1, 9, "lost"))
    marks.add_gap(Gap(Lane.TEL, 7, 11, 2, 9, "thinned"))
    marks.advance()
    assert marks.watermark(epoch="e", pending=0).applied == 7
    for seq in (8, 10):
        marks.add_row(seq)
    marks.advance()
    assert marks.watermark(epoch="e", pending=0).applied == 12
