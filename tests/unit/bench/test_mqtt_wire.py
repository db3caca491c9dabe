"""bench/mqtt_wire: bytes of MQTT, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.mqtt_wire import (
    Published,
    Unpacker,
    WireClient,
    WireError,
    connect_packet,
    packet,
    publish_packet,
    read_publish,
)
from bench.servers import NatsServer

TOPICS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


def test_a_connect_packet_is_what_the_standard_says():
    assert connect_packet("ab") == b"\x10\x0e\x00\x04MQTT\x04\x02\x00\x00\x00\x02ab"


def test_a_long_packet_has_a_length_of_several_digits():
    assert packet(0x30, bytes(321))[:3] == b"\x30\xc1\x02"


@given(
    messages=st.lists(st.tuples(TOPICS, st.binary(max_size=300)), max_size=20),
    cuts=st.lists(st.integers(1, 50), min_size=1, max_size=20),
)
def test_messages_survive_any_cutting_of_the_stream(messages, cuts):
    data = b"".join(publish_packet(topic, payload) for topic, payload in messages)
    unpacker, found, at, turn = Unpacker(), [], 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        found += [read_publish(kind, body) for kind, body in unpacker.feed(data[at : at + size])]
        at, turn = at + size, turn + 1
    assert found == [Published(topic, payload) for topic, payload in messages]


def test_a_message_at_qos_1_is_read_without_its_packet_id():
    assert read_publish(0x32, b"\x00\x01t\x12\x34data") == Published("t", b"data")


def test_another_kind_of_packet_is_no_message():
    assert read_publish(0x90, b"\x00\x01\x00") is None


@pytest.mark.allow_blocking("the client under test blocks by design")
async def test_a_real_broker_hands_over_what_was_sent(field_nats: NatsServer):
    receiver = WireClient(
        field_nats.host, field_nats.mqtt_port, client_id="receiver", filters=["a/+", "b/#"]
    )
    sender = WireClient(field_nats.host, field_nats.mqtt_port, client_id="sender")
    sent = [("a/1", b"one"), ("c/1", b"not for us"), ("b/x/y", b"three")]
    for topic, payload in sent:
        sender.send(publish_packet(topic, payload))
    found: list[Published] = []
    for _ in range(100):
        found += receiver.receive(timeout_s=0.1)
        if len(found) == 2:
            break
    sender.close()
    receiver.close()
    assert found == [Published("a/1", b"one"), Published("b/x/y", b"three")]


@pytest.mark.allow_blocking("the client under test blocks by design")
async def test_the_end_of_the_broker_is_an_error(field_nats: NatsServer):
    client = WireClient(field_nats.host, field_nats.mqtt_port, client_id="c", filters=["x"])
    await field_nats.kill()
    with pytest.raises(WireError):
        client.receive(timeout_s=5.0)
    client.close()
