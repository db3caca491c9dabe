"""`python -m edge_agent.rehearse.hub --port N --ledger FILE --socket FILE`: a hub for drills where none is installed.

It makes the streams, takes the rows of every lane into a durable ledger, acknowledges them after its commit,
answers state requests with watermarks, and says of every inference request that it has no model. What it holds
is read through the socket. It speaks to the stand-in server and to a real one alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path
from typing import Any, Final

from contract.encoding import EncodingError, decode, encode, expand
from contract.messages import InferAnswer, StateAnswer, StateReport
from contract.status import Lane, Status
from contract.subjects import (
    CONSUMER,
    DUPLICATE_WINDOW_S,
    ENCODING,
    QUEUE_GROUP,
    ROOT,
    STATUS,
    STREAM_OF,
    is_reply_of,
    lane_filter,
    parse,
)
from edge_agent.observe.control import ControlServer
from edge_agent.rehearse.hub_ledger import Delivery, Ledger
from edge_agent.rehearse.nats_client import Lost, TinyClient
from edge_agent.rehearse.nats_frames import Frame
from edge_agent.types import JsonObject

_PULL_S: Final = 2.0
_GRACE_S: Final = 1.0
_PAUSE_S: Final = 0.2
_BATCH: Final = 64
_ACK_WAIT_S: Final = 5
_NANO: Final = 1_000_000_000
_MAX_STREAM_BYTES: Final = 128 * 1024 * 1024
_MAX_WAITING: Final = 256


class LanePull:
    """Fetches the messages of one lane: one request open at a time."""

    def __init__(self, client: TinyClient, lane: Lane) -> None:
        self.lane = lane
        self._client = client
        self._inbox = f"_INBOX.rehearsal-{lane.value}"
        self._arrived: asyncio.Queue[Frame] = asyncio.Queue(4 * _BATCH)
        client.subscribe(self._inbox, self._on_message)

    async def fetch(self) -> list[Frame]:
        """What is there, at most a batch; raises Lost, also where the server knows no such consumer."""
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM_OF[self.lane]}.{CONSUMER}"
        request = {"batch": _BATCH, "expires": int(_PULL_S * _NANO)}
        self._client.publish(subject, json.dumps(request).encode(), reply=self._inbox)
        taken: list[Frame] = []
        try:
            async with asyncio.timeout(_PULL_S + _GRACE_S):
                taken.append(await self._arrived.get())
        except TimeoutError:
            return []
        while not self._arrived.empty():
            taken.append(self._arrived.get_nowait())
        if any(len(frame.args) < 3 and not frame.status.startswith("40") for frame in taken):
            raise Lost(f"the server refuses {subject}")
        return [frame for frame in taken if len(frame.args) > 2]

    def _on_message(self, frame: Frame) -> None:
        if not self._arrived.full():  # else it comes again after its acknowledgement is due
            self._arrived.put_nowait(frame)


class Hub:
    """The tasks of the stand-in hub."""

    def __init__(self, client: TinyClient, ledger: Ledger) -> None:
        self._client = client
        self._ledger = ledger
        self._pulls = [LanePull(client, lane) for lane in Lane]
        self._asked: asyncio.Queue[Frame] = asyncio.Queue(_MAX_WAITING)
        client.subscribe(f"{ROOT}.*.state", self._on_state, queue=QUEUE_GROUP)
        client.subscribe(f"{ROOT}.*.inf.*.*", self._on_inference, queue=QUEUE_GROUP)

    async def run(self) -> None:
        """Serves until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._client.run(), name="connection")
            group.create_task(self._answer_states(), name="states")
            for pull in self._pulls:
                group.create_task(self._take(pull), name=f"lane-{pull.lane}")

    async def ready(self) -> bool:
        """Whether the streams are there and the consumers with them."""
        try:
            for lane in Lane:
                await self._prepare(lane)
        except Lost:
            return False
        return True

    async def _prepare(self, lane: Lane) -> None:
        stream = STREAM_OF[lane]
        wanted = {
            "name": stream,
            "subjects": [lane_filter(lane)],
            "retention": "workqueue",
            "storage": "file",
            "discard": "new",
            "max_bytes": _MAX_STREAM_BYTES,
            "duplicate_window": DUPLICATE_WINDOW_S * _NANO,
            "num_replicas": 1,
        }
        consumer = {
            "durable_name": CONSUMER,
            "ack_policy": "explicit",
            "ack_wait": _ACK_WAIT_S * _NANO,
            "max_ack_pending": 4 * _BATCH,
            "max_deliver": -1,
        }
        await self._asks(f"$JS.API.STREAM.CREATE.{stream}", wanted)
        await self._asks(
            f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{CONSUMER}",
            {"stream_name": stream, "config": consumer},
        )

    async def _asks(self, subject: str, body: JsonObject) -> JsonObject:
        answer: JsonObject = json.loads((await self._client.request(subject, body)).body or b"{}")
        if error := answer.get("error"):
            raise Lost(f"{subject}: {error.get('description')}")
        return answer

    async def _take(self, pull: LanePull) -> None:
        while True:
            await self._client.connected.wait()
            try:
                await self._prepare(pull.lane)
                while True:
                    frames = await pull.fetch()
                    if not frames and not self._client.connected.is_set():
                        break
                    self._store(frames)
            except Lost:
                await asyncio.sleep(_PAUSE_S)

    def _store(self, frames: list[Frame]) -> None:
        """Stores first, acknowledges then; blocks for as long as the disk takes."""
        if not frames:
            return
        self._ledger.store(
            Delivery(frame.args[0], frame.headers or {}, frame.body) for frame in frames
        )
        for frame in frames:
            self._client.publish(frame.args[2], b"+ACK")

    def _on_state(self, frame: Frame) -> None:
        if not self._asked.full():  # a device asks again
            self._asked.put_nowait(frame)

    async def _answer_states(self) -> None:
        while True:
            frame = await self._asked.get()
            address = parse(frame.args[0])
            reply = frame.args[2] if len(frame.args) > 2 else ""
            if address is None or not is_reply_of(address.device, reply):
                continue
            try:
                plain = expand(frame.body, (frame.headers or {}).get(ENCODING, ""))
                report = decode(plain, StateReport)
            except EncodingError:
                self._reply(reply, Status.BAD_INPUT, b"")
                continue
            lanes = self._ledger.behind(address.device, report)
            pending = {lane.value: await self._pending(lane) for lane in lanes}
            watermarks = self._ledger.answer(address.device, report, pending)
            self._reply(reply, Status.OK, encode(StateAnswer(etag="", watermarks=watermarks)))

    async def _pending(self, lane: Lane) -> int:
        """Messages of a lane that are not stored yet; 1 while nobody knows."""
        try:
            info = await self._asks(f"$JS.API.CONSUMER.INFO.{STREAM_OF[lane]}.{CONSUMER}", {})
        except Lost:
            return 1
        return int(info.get("num_pending", 0)) + int(info.get("num_ack_pending", 0))

    def _on_inference(self, frame: Frame) -> None:
        address = parse(frame.args[0])
        reply = frame.args[2] if len(frame.args) > 2 else ""
        if address is not None and is_reply_of(address.device, reply):
            answer = InferAnswer(address.rest[-1], 0, error="the stand-in hub has no models")
            self._reply(reply, Status.NO_MODEL, encode(answer))

    def _reply(self, subject: str, status: Status, body: bytes) -> None:
        try:
            self._client.publish(subject, body, headers={STATUS: status.value})
        except Lost:
            return


async def _main(port: int, ledger_file: Path, socket: Path) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    ledger = Ledger(ledger_file)
    hub = Hub(TinyClient(port), ledger)

    async def readings(args: JsonObject) -> object:
        return ledger.readings(after=int(args.get("after", 0)))

    async def counts(_: JsonObject) -> object:
        return {**ledger.counts(), "ready": await hub.ready()}

    async def gaps(_: JsonObject) -> object:
        return ledger.gaps()

    handlers: dict[str, Any] = {"readings": readings, "gaps": gaps, "counts": counts}
    control = ControlServer(socket, handlers)
    await control.start()
    serving = asyncio.create_task(hub.run(), name="hub")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
    finally:
        serving.cancel()
        stopping.cancel()
        await asyncio.wait({serving})
        await control.close()
        ledger.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--socket", type=Path, required=True)
    given = parser.parse_args()
    asyncio.run(_main(given.port, given.ledger, given.socket))
