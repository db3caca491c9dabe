"""A real hub in this process on a real nats-server, and a device that speaks the wire by hand."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import numpy as np
from nats.aio.client import Client
from nats.aio.msg import Msg

from bench.servers import NatsServer
from cloud_hub.hub.crew import Role
from cloud_hub.hub.life import ALL_ROLES, Hub
from cloud_hub.settings import Settings
from cloud_hub.store.database import Database, Work
from contract import subjects
from contract.encoding import decode, encode
from contract.features import feature_digest
from contract.messages import (
    InferAnswer,
    InferRequest,
    LaneReport,
    Row,
    StateAnswer,
    StateReport,
)
from contract.status import Lane, Priority, Status
from contract.tensors import pack_array
from tests.unit.cloud_hub.sample_rows import CLOCK, EPOCH, wire_message
from tests.unit.cloud_hub.tiny_package import FEATURES, SPEC, write_anomaly, write_classifier

DIGEST = feature_digest(SPEC)


def hub_settings(server: NatsServer, folder: Path, **tables: dict[str, Any]) -> Settings:
    """Settings for a hub on this server, its database in `folder`; `tables` add to or replace tables."""
    given: dict[str, dict[str, Any]] = {
        "nats": {
            "url": server.url,
            "monitor_url": server.monitor_url,
            "max_stream_bytes": 64 * 1024 * 1024,
            "reconnect_jitter_s": 0.1,
        },
        "store": {"data_dir": folder / "hub"},
        "http": {"enabled": False},
        "ingest": {"ack_wait_s": 1.0},
    }
    for name, table in tables.items():
        given[name] = given.get(name, {}) | table
    return Settings(**given)  # type: ignore[arg-type]


def tiny_models(folder: Path) -> dict[str, Any]:
    """The table [models] with both tiny packages."""
    return {"packages": [write_classifier(folder / "class"), write_anomaly(folder / "anomaly")]}


@asynccontextmanager
async def running_hub(
    settings: Settings, *, roles: frozenset[Role] = ALL_ROLES, wait: bool = True
) -> AsyncIterator[Hub]:
    """A hub that is ready, for the length of the block; it is drained at the end."""
    hub = Hub(settings, roles=roles)
    running = asyncio.create_task(hub.run(), name="hub")
    try:
        if wait:
            await until(lambda: all(hub.ready().values()) or running.done())
        yield hub
    finally:
        hub.stop()
        async with asyncio.timeout(20):
            await running


async def until(true: Callable[[], object], *, limit_s: float = 15.0) -> None:
    """Returns once `true()`."""
    async with asyncio.timeout(limit_s):
        while not true():
            await asyncio.sleep(0.01)


async def until_read(
    settings: Settings, work: Work[Any], true: Callable[[Any], bool], *, limit_s: float = 15.0
) -> Any:
    """Reads the hub's database from outside until what was read is as wanted; returns it."""
    database = await Database.open_reader(settings.store.resolved_url)
    try:
        async with asyncio.timeout(limit_s):
            while not true(found := await database.read(work)):
                await asyncio.sleep(0.02)
            return found
    finally:
        await database.close()


class Device:
    """One device on the wire."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name

    async def ask(
        self, first: float = 0.1, *, rows: int = 1, **fields: Any
    ) -> tuple[Status, InferAnswer, Msg]:
        """The hub's answer to one request."""
        features = np.full((rows, FEATURES), 0.25, dtype=np.float32)
        features[:, 0] = first
        given: dict[str, Any] = {
            "model": "tiny-class",
            "digest": DIGEST,
            "features": pack_array(features),
            "request": uuid.uuid4().hex,
            "budget_ms": 2000.0,
            "priority": Priority.RT,
        }
        given |= fields
        body = InferRequest(given["model"], given["digest"], given["features"])
        message = await self.client.request(
            subjects.infer_subject(self.name, given["priority"], given["model"]),
            encode(body),
            timeout=5,
            headers={
                subjects.REQUEST: given["request"],
                subjects.BUDGET_MS: str(given["budget_ms"]),
            },
        )
        assert message.headers is not None
        status = Status(message.headers[subjects.STATUS])
        return status, decode(message.data, InferAnswer), message

    async def publish(
        self, rows: Sequence[Row], lane: Lane, *, epoch: str = EPOCH, message_id: str | None = None
    ) -> None:
        """Publishes rows and waits for the server's acknowledgement."""
        subject, body, headers = wire_message(rows, lane, device=self.name, epoch=epoch)
        if message_id is not None:
            headers[subjects.MSG_ID] = message_id
        await self.client.jetstream().publish(subject, body, headers=headers, timeout=5)

    async def state(
        self,
        sent: dict[Lane, int] | None = None,
        *,
        epoch: str = EPOCH,
        revised_to: int = 0,
        etag: str = "",
    ) -> StateAnswer:
        """One state exchange."""
        lanes = {
            lane.value: LaneReport(epoch, next_seq=seq + 1, sent=seq, first_kept=1)
            for lane, seq in (sent or {}).items()
        }
        report = StateReport("0.1.0", CLOCK, lanes, revised_to=revised_to, etag=etag)
        message = await self.client.request(
            subjects.state_subject(self.name), encode(report), timeout=5
        )
        return decode(message.data, StateAnswer)


@asynccontextmanager
async def device(server: NatsServer, name: str = "d1") -> AsyncIterator[Device]:
    """A connected device."""
    client = await nats.connect(server.url, inbox_prefix=subjects.inbox_prefix(name))
    try:
        yield Device(client, name)
    finally:
        await client.close()


async def eventually(
    ask: Callable[[], Awaitable[Any]], true: Callable[[Any], bool], *, limit_s: float = 15.0
) -> Any:
    """Asks until the answer is as wanted; returns it."""
    async with asyncio.timeout(limit_s):
        while not true(found := await ask()):
            await asyncio.sleep(0.02)
        return found
