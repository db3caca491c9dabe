"""Asks the hub as a device would, for the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nats.aio.client import Client
from nats.errors import NoRespondersError

from cloud_hub.bus.dial import NATS_ERRORS, as_bus_error, dial
from cloud_hub.errors import BusDown
from cloud_hub.settings import NatsSettings
from contract.subjects import inbox_prefix


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: headers and body."""

    headers: Mapping[str, str]
    body: bytes


class Caller:
    """Requests under one device's name."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(
        self, subject: str, body: bytes, *, headers: dict[str, str], timeout_s: float
    ) -> Answer:
        """The hub's answer; raises BusDown when no hub listens, BusTimeout when none came in time."""
        try:
            message = await self._client.request(subject, body, timeout=timeout_s, headers=headers)
        except NoRespondersError as error:
            raise BusDown(
                "NATS is there, but no hub listens: is `cloud-hub serve` running?"
            ) from error
        except NATS_ERRORS as error:
            raise as_bus_error(error, "no answer from the hub") from error
        return Answer(message.headers or {}, message.data)


@asynccontextmanager
async def calling(settings: NatsSettings, *, device: str) -> AsyncIterator[Caller]:
    """A connection under the name of `device`, for the length of the block; raises BusError."""

    async def ignore(*_: object) -> None:
        return

    client = await dial(
        settings,
        name=f"cloud-hub-{device}",
        inbox_prefix=inbox_prefix(device),
        on_closed=ignore,
        on_error=ignore,
    )
    try:
        yield Caller(client)
    finally:
        await client.close()
