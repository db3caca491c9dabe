"""The pull consumers of the stand-in server, and the few requests of JetStream's interface that it answers."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from edge_agent.rehearse.nats_frames import header_block
from edge_agent.rehearse.nats_store import Store, Stream

API: Final = "$JS.API."
ACK: Final = "$JS.ACK."
_MADE: Final = "2026-01-01T00:00:00Z"
_MAX_PULLS: Final = 64
_MAX_BATCH: Final = 4096
_NANO: Final = 1_000_000_000

Deliver = Callable[[str, bytes, bytes, str], None]
"""Sends a message to whoever listens on an inbox: inbox, headers, body, reply subject (or the subject shown)."""


@dataclass(slots=True)
class Pull:
    """An open request for messages."""

    inbox: str
    left: int
    bytes_left: int
    expires_s: float


@dataclass(slots=True)
class Delivered:
    """A message that a client has and has not acknowledged."""

    count: int
    until_s: float


class Consumer:
    """The durable consumer of a stream: each message again until it is acknowledged."""

    def __init__(self, stream: Stream, name: str, config: dict[str, Any]) -> None:
        self.stream = stream
        self.name = name
        self.config = config
        self.pulls: deque[Pull] = deque()
        self.open: dict[int, Delivered] = {}
        self._counts: dict[int, int] = {}
        self._number = 0

    @property
    def undelivered(self) -> int:
        """Messages that nobody has at present."""
        return len(self.stream.messages) - len(self.open)

    @property
    def _ack_wait_s(self) -> float:
        return float(self.config.get("ack_wait") or 30 * _NANO) / _NANO

    @property
    def _max_open(self) -> int:
        return int(self.config.get("max_ack_pending") or 1000)

    def pull(self, inbox: str, request: dict[str, Any]) -> None:
        """Opens a request; of more than a few the oldest is forgotten."""
        if len(self.pulls) >= _MAX_PULLS:
            self.pulls.popleft()
        expires = request.get("expires") or 0
        wait_s = 0.0 if request.get("no_wait") else float(expires) / _NANO or 30.0
        batch = min(int(request.get("batch") or 1), _MAX_BATCH)
        most = int(request.get("max_bytes") or 2**62)
        self.pulls.append(Pull(inbox, batch, most, time.monotonic() + wait_s))

    def settle(self, seq: int, word: bytes, store: Store) -> None:
        """What a client says about a message that it was given."""
        held = self.open.get(seq)
        if held is None:
            return
        if word.startswith(b"-NAK"):
            del self.open[seq]
        elif word.startswith(b"+WPI"):
            held.until_s = time.monotonic() + self._ack_wait_s
        else:
            del self.open[seq]
            self._counts.pop(seq, None)
            store.remove(self.stream, seq)

    def pump(self, deliver: Deliver, *, listens: Callable[[str], bool]) -> None:
        """Hands out what is due, oldest first, and ends requests whose time is over."""
        now_s = time.monotonic()
        for seq in [seq for seq, held in self.open.items() if held.until_s <= now_s]:
            del self.open[seq]
        waiting = (seq for seq in self.stream.messages if seq not in self.open)
        for seq in waiting if self.pulls else ():
            if len(self.open) >= self._max_open or not self._give(seq, deliver, listens, now_s):
                break
        while self.pulls and (self.pulls[0].expires_s <= now_s or not listens(self.pulls[0].inbox)):
            ended = self.pulls.popleft()
            deliver(ended.inbox, header_block({}, status="408 Request Timeout"), b"", "")

    def _give(
        self, seq: int, deliver: Deliver, listens: Callable[[str], bool], now_s: float
    ) -> bool:
        """Gives a message to the oldest request that can take it; False when there is none."""
        kept = self.stream.messages[seq]
        while self.pulls:
            pull = self.pulls[0]
            if not listens(pull.inbox):
                self.pulls.popleft()
                continue
            if pull.bytes_left < kept.size:
                self.pulls.popleft()
                deliver(
                    pull.inbox,
                    header_block({}, status="409 Message Size Exceeds MaxBytes"),
                    b"",
                    "",
                )
                continue
            self._number += 1
            count = self._counts[seq] = self._counts.get(seq, 0) + 1
            self.open[seq] = Delivered(count, now_s + self._ack_wait_s)
            reply = (
                f"{ACK}{self.stream.name}.{self.name}.{count}.{seq}.{self._number}."
                f"{time.time_ns()}.{self.undelivered}"
            )
            pull.left -= 1
            pull.bytes_left -= kept.size
            if pull.left <= 0:
                self.pulls.popleft()
            deliver(pull.inbox, kept.headers, kept.body, f"{kept.subject} {reply}")
            return True
        return False

    def info(self) -> dict[str, Any]:
        """As the server describes it."""
        return {
            "type": "io.nats.jetstream.api.v1.consumer_create_response",
            "stream_name": self.stream.name,
            "name": self.name,
            "created": _MADE,
            "config": {"durable_name": self.name, "ack_policy": "explicit", **self.config},
            "delivered": {"consumer_seq": self._number, "stream_seq": self.stream.last},
            "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
            "num_ack_pending": len(self.open),
            "num_redelivered": 0,
            "num_waiting": len(self.pulls),
            "num_pending": self.undelivered,
        }


class Queues:
    """Streams and consumers by name, and the answers to requests about them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.consumers: dict[str, Consumer] = {
            f"{stream}.{name}": Consumer(store.streams[stream], name, config)
            for stream, name, config in store.consumers()
        }

    def answer(self, subject: str, body: bytes, reply: str) -> dict[str, Any] | None:
        """The answer to a request below `$JS.API.`, None for a pull, which is answered by messages."""
        words = subject.removeprefix(API).split(".")
        try:
            request = json.loads(body) if body else {}
        except ValueError:
            return _error(400, 10025, "bad request")
        match words:
            case ["INFO"]:
                return {"type": "io.nats.jetstream.api.v1.account_info_response", "streams": 0}
            case ["STREAM", "CREATE" | "UPDATE", name]:
                return _stream_info(self.store.make(name, request))
            case ["STREAM", "INFO", name]:
                stream = self.store.streams.get(name)
                return (
                    _error(404, 10059, "stream not found")
                    if stream is None
                    else _stream_info(stream)
                )
            case ["CONSUMER", "CREATE" | "DURABLE", *rest] if rest:
                rest = rest[1:] if rest[0] == "CREATE" else rest
                return self._make_consumer(rest[0], request)
            case ["CONSUMER", "INFO", _, _]:
                consumer = self._consumer(words[2], words[3])
                return (
                    _error(404, 10014, "consumer not found")
                    if consumer is None
                    else consumer.info()
                )
            case ["CONSUMER", "MSG", "NEXT", stream_name, name]:
                consumer = self._consumer(stream_name, name)
                if consumer is not None:
                    consumer.pull(reply, request)
                    return None
                return _error(404, 10014, "consumer not found")
        return _error(501, 10000, f"this stand-in does not know {subject}")

    def settle(self, subject: str, word: bytes) -> None:
        """An acknowledgement: `$JS.ACK.stream.consumer.count.seq.…`."""
        words = subject.split(".")
        if len(words) >= 6 and words[5].isdecimal():
            consumer = self._consumer(words[2], words[3])
            if consumer is not None:
                consumer.settle(int(words[5]), word, self.store)

    def _consumer(self, stream: str, name: str) -> Consumer | None:
        return self.consumers.get(f"{stream}.{name}")

    def _make_consumer(self, stream_name: str, request: dict[str, Any]) -> dict[str, Any]:
        stream = self.store.streams.get(stream_name)
        config = request.get("config", {})
        name = config.get("durable_name") or config.get("name")
        if stream is None or not name:
            return _error(404, 10059, "stream not found")
        self.store.keep_consumer(stream_name, name, config)
        key = f"{stream_name}.{name}"
        if key in self.consumers:
            self.consumers[key].config = config
        else:
            self.consumers[key] = Consumer(stream, name, config)
        return self.consumers[key].info()


def _stream_info(stream: Stream) -> dict[str, Any]:
    return {
        "type": "io.nats.jetstream.api.v1.stream_create_response",
        "config": {"name": stream.name, **stream.config},
        "created": _MADE,
        "did_create": True,
        "state": {
            "messages": len(stream.messages),
            "bytes": stream.bytes,
            "first_seq": min(stream.messages, default=stream.last + 1),
            "last_seq": stream.last,
            "consumer_count": 1,
        },
    }


def _error(code: int, number: int, text: str) -> dict[str, Any]:
    return {"error": {"code": code, "err_code": number, "description": text}}
