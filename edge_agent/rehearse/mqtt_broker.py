"""`python -m edge_agent.rehearse.mqtt_broker --port N`: a broker for drills where none is installed.

It speaks MQTT 3.1.1 as far as sensors and the agent do: persistent sessions, wildcards, QoS 0 and 1 both
ways, redelivery with DUP after a reconnect, retained messages, wills, keep-alive. It listens on loopback
alone, keeps everything in memory within bounds, and asks nobody for a password.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from typing import Final

from edge_agent.rehearse import mqtt_packets as mqtt
from edge_agent.rehearse.mqtt_packets import BadPacket, Greeting, Message
from edge_agent.rehearse.mqtt_sessions import Session, Sessions
from edge_agent.rehearse.ports import HOST

_TICK_S: Final = 1.0
_GREETING_S: Final = 10.0
_HIGH_WATER_BYTES: Final = 1024 * 1024
_ACCEPTED, _BAD_VERSION, _BAD_ID, _UNAVAILABLE = 0, 1, 2, 3


class Broker:
    """The connections and what they share."""

    def __init__(self) -> None:
        self.sessions = Sessions()
        self.connections: dict[str, ClientConnection] = {}
        self.open: set[ClientConnection] = set()

    async def serve(self, port: int, stop: asyncio.Event) -> None:
        """Serves until `stop`."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ClientConnection(self), HOST, port)
        tick = asyncio.create_task(self._watch(), name="keep-alive")
        await stop.wait()
        tick.cancel()
        server.close()
        for connection in list(self.open):
            connection.drop()

    async def _watch(self) -> None:
        """Drops clients that are silent for too long; a freeze of our own is held against nobody."""
        last_s = time.monotonic()
        while True:
            await asyncio.sleep(_TICK_S)
            now_s = time.monotonic()
            frozen = now_s - last_s > 2 * _TICK_S
            for connection in list(self.open):
                if frozen:
                    connection.heard_s = now_s
                elif now_s - connection.heard_s > connection.patience_s:
                    connection.drop()
            last_s = now_s


class ClientConnection(asyncio.Protocol):
    """One connection of one client."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._transport: asyncio.Transport | None = None
        self._splitter = mqtt.Splitter()
        self._session: Session | None = None
        self._will: Message | None = None
        self.heard_s = time.monotonic()
        self.patience_s = _GREETING_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is here; it has some seconds to greet."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._transport = transport
        self._broker.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: its session waits for it, or ends if it was a clean one."""
        broker = self._broker
        broker.open.discard(self)
        session, self._session = self._session, None
        if session is not None and broker.connections.get(session.client_id) is self:
            del broker.connections[session.client_id]
            session.detach()
            if session.clean:
                broker.sessions.forget(session.client_id)
        will, self._will = self._will, None
        if will is not None:
            broker.sessions.route(will)

    def pause_writing(self) -> None:
        """The client does not read: what is for it waits in its session."""
        if self._session is not None:
            self._session.blocked = True

    def resume_writing(self) -> None:
        """It reads again."""
        if self._session is not None:
            self._session.blocked = False
            self._session.pump()

    def data_received(self, data: bytes) -> None:
        """Bytes of the client; what is no MQTT ends the connection."""
        self.heard_s = time.monotonic()
        try:
            for kind, flags, body in self._splitter.feed(data):
                if self._session is None:
                    if kind != mqtt.CONNECT:
                        raise BadPacket("the first packet is no CONNECT")
                    self._greet(mqtt.read_connect(body))
                else:
                    self._handle(self._session, kind, flags, body)
                if self._transport is None or self._transport.is_closing():
                    return
        except BadPacket:
            self.drop()

    def drop(self) -> None:
        """Ends the connection now."""
        if self._transport is not None:
            self._transport.abort()

    def _greet(self, greeting: Greeting) -> None:
        if greeting.level != 4:
            self._refuse(_BAD_VERSION)
            return
        if not greeting.client_id and not greeting.clean:
            self._refuse(_BAD_ID)
            return
        client_id = greeting.client_id or f"anonymous-{id(self):x}"
        older = self._broker.connections.pop(client_id, None)
        if older is not None:  # the same client comes again before we saw it go
            older.drop()
        session, present = self._broker.sessions.open(client_id, clean=greeting.clean)
        if session is None:
            self._refuse(_UNAVAILABLE)
            return
        if older is not None:
            session.detach()
        self._session = session
        self._will = greeting.will
        self._broker.connections[client_id] = self
        keepalive_s = greeting.keepalive_s
        self.patience_s = 1.5 * keepalive_s + _TICK_S if keepalive_s else float("inf")
        self._write(mqtt.frame(mqtt.CONNACK, 0, bytes([1 if present else 0, _ACCEPTED])))
        session.attach(self._deliver)

    def _refuse(self, code: int) -> None:
        self._write(mqtt.frame(mqtt.CONNACK, 0, bytes([0, code])))
        if self._transport is not None:
            self._transport.close()

    def _handle(self, session: Session, kind: int, flags: int, body: bytes) -> None:
        sessions = self._broker.sessions
        if kind == mqtt.PUBLISH:
            message, mid = mqtt.read_publish(flags, body)
            sessions.route(message)
            if message.qos:
                self._write(mqtt.with_id(mqtt.PUBACK, mid))
        elif kind == mqtt.PUBACK:
            session.acknowledged(mqtt.read_id(body, 0))
        elif kind == mqtt.SUBSCRIBE:
            mid, filters = mqtt.read_filters(body, with_qos=True)
            granted = bytes(
                qos if sessions.subscribe(session, pattern, qos) else 0x80
                for pattern, qos in filters
            )
            self._write(mqtt.with_id(mqtt.SUBACK, mid, granted))
            for pattern, _ in filters:
                if pattern in session.filters:
                    sessions.hand_retained(session, pattern)
        elif kind == mqtt.UNSUBSCRIBE:
            mid, filters = mqtt.read_filters(body, with_qos=False)
            for pattern, _ in filters:
                sessions.unsubscribe(session, pattern)
            self._write(mqtt.with_id(mqtt.UNSUBACK, mid))
        elif kind == mqtt.PINGREQ:
            self._write(mqtt.frame(mqtt.PINGRESP, 0, b""))
        elif kind == mqtt.DISCONNECT:
            self._will = None
            if self._transport is not None:
                self._transport.close()
        else:
            raise BadPacket(f"a packet of kind {kind}")

    def _deliver(self, message: Message, mid: int, dup: bool) -> None:  # noqa: FBT001
        self._write(mqtt.publish(message, mid=mid, dup=dup))

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


async def _main(port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await Broker().serve(port, stop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(_main(parser.parse_args().port))
