"""Fetches the messages of one lane by pull requests, with a bound on what lies here unprocessed."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Final

from nats.aio.client import Client
from nats.aio.msg import Msg

from cloud_hub.bus.cancelling import honour_cancellation
from cloud_hub.bus.connection import Connection
from cloud_hub.bus.dial import NATS_ERRORS, as_bus_error
from cloud_hub.errors import BusDown
from cloud_hub.types import Delivery
from contract.status import Lane
from contract.subjects import CONSUMER, STREAM_OF

MAX_PULL_BYTES: Final = 8 * 1024 * 1024
EXPIRY_GRACE_S: Final = 1.0
NO_RESPONDERS: Final = "503"
CONFLICT: Final = "409"
ACK: Final = b"+ACK"
NAK: Final = b"-NAK"


class LanePuller:
    """The messages of a lane, oldest first, each again until it is acknowledged.

    One pull request is open at a time and asks for no more than one fetch, so that at most two fetches lie
    here: the one in hand and the one that arrives meanwhile. An acknowledgement that cannot be sent is
    dropped: the message comes again, and storing it again changes nothing. Where the stream or its consumer
    is gone (a server that found its files damaged forgets them), the connection is prepared anew.
    """

    def __init__(self, connection: Connection, lane: Lane) -> None:
        self._connection = connection
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM_OF[lane]}.{CONSUMER}"
        self._client: Client | None = None
        self._inbox = ""
        self._arrived: deque[Msg] = deque()
        self._something = asyncio.Event()
        self._credit = 0
        self._expires_mono_s = 0.0
        self._gone = ""
        connection.when_lost(self._on_lost)

    async def fetch(self, *, max_messages: int, wait_s: float) -> list[Delivery]:
        """All that has arrived, at most `max_messages`; empty when nothing came within `wait_s`."""
        client = await self._connection.client(wait_s=wait_s)
        try:
            if client is not self._client:
                await self._move_to(client)
            if not self._arrived:
                await self._request(client, max_messages, wait_s)
                await self._wait(wait_s)
            taken = [self._arrived.popleft() for _ in range(min(max_messages, len(self._arrived)))]
            if taken and not self._arrived:
                await self._request(client, max_messages, wait_s)
        except NATS_ERRORS as error:
            raise as_bus_error(error, "cannot fetch") from error
        if not taken and self._gone:
            why, self._gone = self._gone, ""
            self._connection.renew(why)
            raise BusDown(why)
        return [_delivery(client, message) for message in taken]

    async def release(self) -> None:
        """Gives back what lies here unprocessed, so that it comes again at once."""
        client, self._client = self._client, None
        if client is None or client.is_closed:
            return
        while self._arrived:
            await _settle(client, self._arrived.popleft().reply, NAK)

    async def _move_to(self, client: Client) -> None:
        self._arrived.clear()
        self._credit = 0
        self._gone = ""
        self._inbox = client.new_inbox()
        await client.subscribe(self._inbox, cb=partial(self._on_message, client))
        self._client = client

    def _on_lost(self) -> None:
        """Ends a wait for messages that would come over the lost connection; the next fetch asks anew."""
        self._credit = 0
        self._something.set()

    async def _on_message(self, client: Client, message: Msg) -> None:
        if client is not self._client:
            return
        if message.headers and "Status" in message.headers and not message.reply:
            self._credit = 0
            if _says_gone(message.headers):
                self._gone = f"the consumer of {self._subject.rsplit('.', 2)[-2]} is gone"
        else:
            self._credit = max(self._credit - 1, 0)
            self._arrived.append(message)
        self._something.set()

    async def _request(self, client: Client, max_messages: int, wait_s: float) -> None:
        if self._credit > 0 and time.monotonic() < self._expires_mono_s:
            return
        self._credit = max_messages
        self._expires_mono_s = time.monotonic() + wait_s + EXPIRY_GRACE_S
        pull = {
            "batch": max_messages,
            "max_bytes": MAX_PULL_BYTES,
            "expires": int(wait_s * 1_000_000_000),
        }
        await client.publish(self._subject, json.dumps(pull).encode(), self._inbox)
        honour_cancellation()

    async def _wait(self, wait_s: float) -> None:
        """Returns once a message is here, or the pull request has ended, or the time is over."""
        try:
            async with asyncio.timeout(wait_s):
                while not self._arrived and self._credit > 0:
                    self._something.clear()
                    await self._something.wait()
        except TimeoutError:
            return


def _says_gone(headers: Mapping[str, str]) -> bool:
    """Whether the answer to a pull request says that nothing will ever come: nobody listens, or it was deleted."""
    status = headers.get("Status", "")
    return status == NO_RESPONDERS or (
        status == CONFLICT and "delete" in headers.get("Description", "").lower()
    )


def _delivery(client: Client, message: Msg) -> Delivery:
    return Delivery(
        subject=message.subject,
        headers=message.headers or {},
        body=message.data,
        acknowledge=partial(_settle, client, message.reply, ACK),
    )


async def _settle(client: Client, reply: str, word: bytes) -> None:
    try:
        await client.publish(reply, word)
    except NATS_ERRORS:
        return
    honour_cancellation()
