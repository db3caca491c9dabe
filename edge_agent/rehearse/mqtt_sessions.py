"""What a broker remembers of its clients: filters, queues, what is in flight, retained messages. Pure.

In memory: a session outlives its connection and a freeze of the broker, not a kill of it. No drill
kills the broker: what it loses then is no affair of the device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from edge_agent.readings.topics import match_levels
from edge_agent.rehearse.mqtt_packets import Message

MAX_SESSIONS: Final = 64
MAX_QUEUED: Final = 200_000
MAX_QUEUED_BYTES: Final = 256 * 1024 * 1024
MAX_IN_FLIGHT: Final = 20_000
MAX_RETAINED: Final = 4096
MAX_FILTERS: Final = 8192
_IDS: Final = 65_535

Send = Callable[[Message, int, bool], None]
"""Puts a message with its packet id and DUP on the client's connection."""


class Session:
    """One client. While `send` is None it is away, and what comes at QoS 1 waits."""

    def __init__(self, client_id: str, *, clean: bool) -> None:
        self.client_id = client_id
        self.clean = clean
        self.filters: dict[str, int] = {}
        self.dropped = 0
        self.blocked = False
        """The client's socket takes nothing at present."""
        self._send: Send | None = None
        self._queue: deque[Message] = deque()
        self._queued_bytes = 0
        self._in_flight: dict[int, Message] = {}
        self._last_id = 0

    @property
    def waiting(self) -> int:
        """Messages that the client has not acknowledged yet."""
        return len(self._queue) + len(self._in_flight)

    def attach(self, send: Send) -> None:
        """The client is here: what was in flight goes again with DUP, in order, then the rest."""
        self._send = send
        self.blocked = False
        for mid, message in list(self._in_flight.items()):
            send(message, mid, True)  # noqa: FBT003 - DUP
        self.pump()

    def detach(self) -> None:
        """The client is gone."""
        self._send = None

    def offer(self, message: Message) -> None:
        """Takes a message whose topic the client wants, at the QoS it asked for."""
        if message.qos == 0:
            if self._send is not None and not self.blocked:
                self._send(message, 0, False)  # noqa: FBT003
            else:
                self.dropped += 1
            return
        size = len(message.payload)
        if len(self._queue) >= MAX_QUEUED or self._queued_bytes + size > MAX_QUEUED_BYTES:
            self.dropped += 1
            return
        self._queue.append(message)
        self._queued_bytes += size
        self.pump()

    def acknowledged(self, mid: int) -> None:
        """The client has the message; an unknown id is ignored."""
        if self._in_flight.pop(mid, None) is not None:
            self.pump()

    def pump(self) -> None:
        """Sends what waits, as far as the window and the socket allow."""
        while (
            self._queue
            and self._send is not None
            and not self.blocked
            and len(self._in_flight) < MAX_IN_FLIGHT
        ):
            message = self._queue.popleft()
            self._queued_bytes -= len(message.payload)
            mid = self._next_id()
            self._in_flight[mid] = message
            self._send(message, mid, False)  # noqa: FBT003

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % _IDS + 1
            if self._last_id not in self._in_flight:
                return self._last_id


class Sessions:
    """All of them, and the retained messages."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._retained: dict[str, Message] = {}
        self._wanted: dict[str, list[tuple[Session, int]]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, client_id: str, *, clean: bool) -> tuple[Session | None, bool]:
        """The session of a client and whether it was there before; None when there are too many."""
        found = self._sessions.get(client_id)
        if found is not None and not clean and not found.clean:
            return found, True
        self.forget(client_id)
        if len(self._sessions) >= MAX_SESSIONS:
            return None, False
        session = self._sessions[client_id] = Session(client_id, clean=clean)
        return session, False

    def forget(self, client_id: str) -> None:
        """Ends a session with all that waits in it."""
        self._sessions.pop(client_id, None)
        self._wanted.clear()

    def subscribe(self, session: Session, pattern: str, qos: int) -> bool:
        """Notes a filter; False when it is refused."""
        if not _is_filter(pattern) or (
            len(session.filters) >= MAX_FILTERS and pattern not in session.filters
        ):
            return False
        session.filters[pattern] = qos
        self._wanted.clear()
        return True

    def hand_retained(self, session: Session, pattern: str) -> None:
        """Hands out the retained messages that a filter of the session matches."""
        qos = session.filters.get(pattern, 0)
        for message in list(self._retained.values()):
            if match_levels(pattern, message.topic) is not None:
                session.offer(replace(message, qos=min(qos, message.qos)))

    def unsubscribe(self, session: Session, pattern: str) -> None:
        """Forgets a filter."""
        session.filters.pop(pattern, None)
        self._wanted.clear()

    def route(self, message: Message) -> None:
        """Hands a message to everyone who wants it, once each, at the highest QoS that was asked for."""
        if message.retain:
            self._retain(message)
        wanted = self._wanted.get(message.topic)
        if wanted is None:
            if len(self._wanted) > 4 * MAX_RETAINED:
                self._wanted.clear()
            wanted = self._wanted[message.topic] = [
                (session, max(matches))
                for session in self._sessions.values()
                if (
                    matches := [
                        qos
                        for pattern, qos in session.filters.items()
                        if match_levels(pattern, message.topic) is not None
                    ]
                )
            ]
        for session, qos in wanted:
            session.offer(Message(message.topic, message.payload, min(qos, message.qos), False))  # noqa: FBT003

    def _retain(self, message: Message) -> None:
        if not message.payload:
            self._retained.pop(message.topic, None)
        elif message.topic in self._retained or len(self._retained) < MAX_RETAINED:
            self._retained[message.topic] = message


def _is_filter(pattern: str) -> bool:
    levels = pattern.split("/")
    return bool(pattern) and all(
        ("#" not in level or (level == "#" and position == len(levels) - 1))
        and ("+" not in level or level == "+")
        for position, level in enumerate(levels)
    )
