"""Stock paho, made fit for an event loop: the one module that knows paho and its insides.

What differs from paho's own `Client`: the socket is made elsewhere, a read handles all that has
arrived and can be stopped between two packets, a packet is never kept beyond a bound, and the
keepalive holds while reading is stopped on purpose.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from edge_agent.broker.options import BrokerOptions

_RECEIVE_BYTES = 256 * 1024
_PUBLISH = 0x30


@dataclass(frozen=True, slots=True)
class Will:
    """What the broker says in our name when we vanish: retained, QoS 1."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Handlers:
    """Who is told what; all are called on the thread that reads, and none may raise."""

    message: Callable[[str | None, bytes, int, int, bool, bool], None]
    """Topic (None where it is not UTF-8), payload, QoS, packet id, dup, retained."""
    accepted: Callable[[bool], None]
    """The broker accepted us; whether it remembers our session."""
    refused: Callable[[str], None]
    subscribed: Callable[[int, list[bool]], None]
    """The packet id of a SUBSCRIBE, and for each of its filters whether it was granted."""
    unsubscribed: Callable[[int], None]
    """The packet id of an UNSUBSCRIBE that the broker has taken."""
    published: Callable[[int], None] | None
    """The broker has taken a QoS 1 message; by packet id."""
    lost: Callable[[str], None]
    socket_closing: Callable[[socket.socket], None]
    wants_write: Callable[[], None]


class PahoClient(paho.Client):
    """One MQTT client whose socket, reads and writes are driven from outside.

    Not thread-safe: everything happens on the thread of the event loop. A subclass may replace
    `read` by a faster one that keeps its contract.
    """

    def __init__(self, options: BrokerOptions, handlers: Handlers, *, will: Will | None) -> None:
        five = options.protocol == "5"
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=options.client_id,
            clean_session=None if five else options.clean_session,
            protocol=MQTTProtocolVersion.MQTTv5 if five else MQTTProtocolVersion.MQTTv311,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        self.reading = True
        """False stops `read` after the packet that it is at."""
        self._options = options
        self._handlers = handlers
        self._prepared: socket.socket | None = None
        self.max_inflight_messages = options.max_inflight_messages
        self.max_queued_messages = options.max_queued_messages
        if options.username is not None:
            self.username_pw_set(options.username, options.password)
        if will is not None:
            self.will_set(will.topic, will.payload, qos=1, retain=True)
        properties = None
        if five:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = options.session_expiry_s
        self.connect_async(
            options.host,
            options.port,
            keepalive=options.keepalive_s,
            clean_start=options.clean_session,
            properties=properties,
        )
        self._wire(handlers)

    def open(self, sock: socket.socket) -> None:
        """Greets the broker on a connected, non-blocking socket; the client owns it from now on."""
        self._prepared = sock
        self.reading = True
        self.reconnect()

    def read(self, limit: int) -> bool:
        """Handles what has arrived, at most `limit` packets; True when there may be more.

        Returns False when the socket is empty or closed, and when `reading` was set to False.
        """
        for _ in range(limit):
            if self._sock is None or not self.reading:
                return False
            code = self._packet_read()
            if code == MQTTErrorCode.MQTT_ERR_AGAIN:
                self._cut_packet()
                return False
            if code != MQTTErrorCode.MQTT_ERR_SUCCESS:
                self._loop_rc_handle(code)
                return False
        return True

    def hand_over(self, topic: str, payload: bytes, *, qos: int, retain: bool) -> int | None:
        """Queues one message and returns its packet id; None when the queue is full.

        A QoS 1 message is kept until the broker has taken it, over any number of connections.
        """
        for _ in range(2):  # a packet id may still be in use by a message that waits: take the next
            info = self.publish(topic, payload, qos=qos, retain=retain)
            if info.rc != MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
                return info.mid
        return None

    def tick(self) -> None:
        """Pings and notices a silent broker; to be called about once a second.

        While reading is stopped, what the broker says is not seen: we ping and do not judge.
        """
        if not self.reading:
            self._last_bytes_received = time.monotonic()
            self._ping_t = 0.0
        self.loop_misc()

    def drop(self, why: str) -> None:
        """Ends the connection at once; a no-op when there is none."""
        if self._sock is not None:
            self._sock_close()
            self._handlers.lost(why)

    @property
    def unsent(self) -> int:
        """Packets that wait for the socket."""
        return len(self._out_packet)

    @property
    def unacknowledged(self) -> int:
        """QoS 1 messages of ours that the broker has not taken yet."""
        return len(self._out_messages)

    # --- paho's own seams ---------------------------------------------------------------------

    def _create_socket(self) -> socket.socket:
        sock, self._prepared = self._prepared, None
        if sock is None:
            raise ConnectionError("paho asked for a socket of its own: open() was not called")
        return sock

    def _sock_recv(self, bufsize: int) -> bytes:
        return super()._sock_recv(min(bufsize, _RECEIVE_BYTES))

    def _cut_packet(self) -> None:
        """Keeps of an overlong publish its head only: it will be too large whatever else it holds."""
        packet = self._in_packet["packet"]
        if len(packet) > self._options.max_packet_bytes:
            if self._in_packet["command"] & 0xF0 != _PUBLISH:
                self.drop("protocol error: a control packet is larger than any can be")
                return
            del packet[self._options.max_packet_bytes :]

    def _wire(self, handlers: Handlers) -> None:
        deliver = handlers.message

        def on_message(_c: paho.Client, _u: Any, message: paho.MQTTMessage) -> None:
            topic: str | None
            try:
                topic = message.topic
            except UnicodeDecodeError:
                topic = None
            deliver(
                topic,
                bytes(message.payload),
                message.qos,
                message.mid,
                bool(message.dup),
                bool(message.retain),
            )

        def on_connect(
            _c: paho.Client, _u: Any, flags: Any, reason: ReasonCode, _p: Properties | None
        ) -> None:
            if reason.is_failure:
                handlers.refused(str(reason))
            else:
                handlers.accepted(bool(flags.session_present))

        def on_disconnect(
            _c: paho.Client, _u: Any, _f: Any, reason: ReasonCode, _p: Properties | None
        ) -> None:
            # paho has no word for a connection that simply ended.
            lost = str(reason) == "Unspecified error"
            handlers.lost("the connection was lost" if lost else str(reason))

        def on_subscribe(
            _c: paho.Client, _u: Any, mid: int, reasons: list[ReasonCode], _p: Properties | None
        ) -> None:
            handlers.subscribed(mid, [not reason.is_failure for reason in reasons])

        def on_unsubscribe(
            _c: paho.Client, _u: Any, mid: int, _r: list[ReasonCode], _p: Properties | None
        ) -> None:
            handlers.unsubscribed(mid)

        def on_socket_close(_c: paho.Client, _u: Any, sock: Any) -> None:
            handlers.socket_closing(sock)

        def on_socket_register_write(_c: paho.Client, _u: Any, _sock: Any) -> None:
            handlers.wants_write()

        self.on_message = on_message
        self.on_connect = on_connect
        self.on_disconnect = on_disconnect
        self.on_subscribe = on_subscribe
        self.on_unsubscribe = on_unsubscribe
        self.on_socket_close = on_socket_close
        self.on_socket_register_write = on_socket_register_write
        published = handlers.published
        if published is not None:
            self.on_publish = lambda _c, _u, mid, _r, _p: published(mid)
