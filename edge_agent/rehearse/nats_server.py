"""`python -m edge_agent.rehearse.nats_server --port N --store FILE`: a NATS server for drills where none is installed.

Core publish and subscribe with queue groups, headers and "no responders", and as much of JetStream as a device and
a hub use: work queues that acknowledge after an fsync, know a message id again, and give each message to a pull
consumer until it is acknowledged. It listens on loopback alone and asks nobody who he is.

Storing blocks this process on purpose: it has nothing to do meanwhile that would not have to wait for it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
from pathlib import Path
from typing import Any, Final

from edge_agent.rehearse.nats_frames import (
    BadFrame,
    Frame,
    FrameReader,
    header_block,
    matches,
    message_frame,
)
from edge_agent.rehearse.nats_queues import ACK, API, Queues
from edge_agent.rehearse.nats_store import Store, StreamFull
from edge_agent.rehearse.ports import HOST

MAX_PAYLOAD_BYTES: Final = 256 * 1024
_TICK_S: Final = 0.1
_MAX_UNSENT_BYTES: Final = 64 * 1024 * 1024
_FULL: Final = {"error": {"code": 503, "err_code": 10077, "description": "maximum bytes exceeded"}}


class Server:
    """The connections, who listens to what, and the queues."""

    def __init__(self, store: Store) -> None:
        self.queues = Queues(store)
        self.clients: list[Client] = []
        self._store = store
        self._answers: list[tuple[str, bytes]] = []
        self._due = False

    async def serve(self, port: int, stop: asyncio.Event) -> None:
        """Serves until `stop`."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Client(self, port), HOST, port)
        while not stop.is_set():
            self._pump()  # what was not acknowledged in time, and requests whose time is over
            try:
                async with asyncio.timeout(_TICK_S):
                    await stop.wait()
            except TimeoutError:
                continue
        server.close()
        for client in list(self.clients):
            client.drop()
        self._commit()

    def publish(self, sender: Client, frame: Frame) -> None:
        """One message of a client goes where it belongs."""
        subject = frame.args[0]
        reply = frame.args[1] if len(frame.args) > 1 else ""
        if subject.startswith(ACK):
            self.queues.settle(subject, frame.body)
            if reply:
                self._answers.append((reply, b""))
            self._commit_soon()
        elif subject.startswith(API):
            answer = self.queues.answer(subject, frame.body, reply)
            if answer is None:
                self._commit_soon()
            else:
                self.deliver(reply, _json(answer))
        elif (stream := self._store.capturing(subject)) is not None:
            id = (frame.headers or {}).get("Nats-Msg-Id", "")
            try:
                seq, known = self._store.add(
                    stream, subject=subject, headers=frame.raw_headers, body=frame.body, id=id
                )
                answer = {
                    "stream": stream.name,
                    "seq": seq,
                    **({"duplicate": True} if known else {}),
                }
            except StreamFull:
                answer = _FULL
            if reply:
                self._answers.append((reply, _json(answer)))
            self._commit_soon()
        else:
            heard = self.deliver(subject, frame.body, frame.raw_headers, reply)
            if reply and not heard and sender.wants_no_responders:
                sender.send_where_listening(reply, b"", header_block({}, status="503"), "")

    def deliver(self, subject: str, body: bytes, headers: bytes = b"", reply: str = "") -> bool:
        """Sends a message to all who listen, once for each queue group; whether there was anyone."""
        groups: dict[str, list[tuple[Client, str]]] = {}
        heard = False
        for client in self.clients:
            for sid, (pattern, queue) in list(client.subscriptions.items()):
                if not matches(pattern, subject):
                    continue
                heard = True
                if queue:
                    groups.setdefault(queue, []).append((client, sid))
                else:
                    client.send(subject, sid, reply, body, headers)
        for members in groups.values():
            client, sid = random.choice(members)  # noqa: S311 - sharing work is no secret
            client.send(subject, sid, reply, body, headers)
        return heard

    def _commit_soon(self) -> None:
        """Everything that comes in one turn of the loop shares one fsync."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._commit)

    def _commit(self) -> None:
        self._due = False
        self._store.commit()
        answers, self._answers = self._answers, []
        for reply, body in answers:
            self.deliver(reply, body)
        self._pump()

    def _pump(self) -> None:
        for consumer in self.queues.consumers.values():
            consumer.pump(self._hand_out, listens=self._listens)

    def _hand_out(self, inbox: str, headers: bytes, body: bytes, address: str) -> None:
        """A message of a consumer: it is shown under its own subject, with where to acknowledge it."""
        subject, _, reply = address.partition(" ")
        for client in self.clients:
            if client.send_where_listening(inbox, body, headers, reply, shown=subject):
                return

    def _listens(self, subject: str) -> bool:
        return any(
            matches(pattern, subject)
            for client in self.clients
            for pattern, _ in client.subscriptions.values()
        )


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: Server, port: int) -> None:
        self._server = server
        self._port = port
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self.subscriptions: dict[str, tuple[str, str]] = {}
        self._left: dict[str, int] = {}
        self._headers = False
        self.wants_no_responders = False
        self._verbose = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Says who we are."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.clients.append(self)
        info = {
            "server_id": "REHEARSAL",
            "server_name": "rehearsal",
            "version": "2.10.0",
            "proto": 1,
            "host": HOST,
            "port": self._port,
            "headers": True,
            "max_payload": MAX_PAYLOAD_BYTES,
            "jetstream": True,
        }
        self._write(b"INFO " + _json(info) + b" \r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        """It listens to nothing any more."""
        if self in self._server.clients:
            self._server.clients.remove(self)

    def data_received(self, data: bytes) -> None:
        """Operations of the client; what is no NATS ends the connection."""
        try:
            for frame in self._reader.feed(data):
                self._handle(frame)
        except (BadFrame, ValueError, IndexError):
            self._end(b"-ERR 'Unknown Protocol Operation'\r\n")

    def send(self, subject: str, sid: str, reply: str, body: bytes, headers: bytes) -> None:
        """One message to one subscription; a client that does not read is cut off."""
        transport = self._transport
        if transport is None or transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            self.drop()
            return
        self._write(
            message_frame("MSG", (subject, sid, reply), body, headers if self._headers else b"")
        )
        if sid in self._left:
            self._left[sid] -= 1
            if self._left[sid] <= 0:
                self.subscriptions.pop(sid, None)
                del self._left[sid]

    def send_where_listening(
        self, subject: str, body: bytes, headers: bytes, reply: str, *, shown: str = ""
    ) -> bool:
        """Sends to the first subscription that listens on a subject; False when none does."""
        for sid, (pattern, _) in self.subscriptions.items():
            if matches(pattern, subject):
                self.send(shown or subject, sid, reply, body, headers)
                return True
        return False

    def drop(self) -> None:
        """Ends the connection now."""
        if self._transport is not None:
            self._transport.abort()

    def _handle(self, frame: Frame) -> None:
        if frame.op == "PUB":
            if len(frame.body) + len(frame.raw_headers) > MAX_PAYLOAD_BYTES:
                self._end(b"-ERR 'Maximum Payload Violation'\r\n")
                return
            self._server.publish(self, frame)
        elif frame.op == "SUB":
            queue = frame.args[1] if len(frame.args) == 3 else ""
            self.subscriptions[frame.args[-1]] = (frame.args[0], queue)
        elif frame.op == "UNSUB":
            if len(frame.args) > 1:
                self._left[frame.args[0]] = int(frame.args[1])
            else:
                self.subscriptions.pop(frame.args[0], None)
        elif frame.op == "PING":
            self._write(b"PONG\r\n")
        elif frame.op == "CONNECT":
            options: dict[str, Any] = json.loads(frame.args[0])
            self._headers = bool(options.get("headers"))
            self.wants_no_responders = self._headers and bool(options.get("no_responders"))
            self._verbose = bool(options.get("verbose"))
        elif frame.op != "PONG":
            raise BadFrame(frame.op)
        if self._verbose and frame.op not in ("PING", "PONG"):
            self._write(b"+OK\r\n")

    def _end(self, words: bytes) -> None:
        self._write(words)
        if self._transport is not None:
            self._transport.close()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


async def _main(port: int, path: Path) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    store = Store(path)
    try:
        await Server(store).serve(port, stop)
    finally:
        store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--store", type=Path, required=True)
    given = parser.parse_args()
    asyncio.run(_main(given.port, given.store))
