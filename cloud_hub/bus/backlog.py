"""Asks the server how much of a lane is not stored yet."""

from __future__ import annotations

import asyncio
from typing import Final

from cloud_hub.bus.cancelling import honour_cancellation
from cloud_hub.bus.connection import Connection
from cloud_hub.bus.dial import NATS_ERRORS
from cloud_hub.errors import BusDown
from contract.status import Lane
from contract.subjects import CONSUMER, STREAM_OF

LIMIT_S: Final = 2.0
UNKNOWN: Final = 1
"""Reported when the server does not say: a device resends on 0 only, so not knowing must not be 0."""


class ServerBacklog:
    """Counts the messages of a lane that the hub has still to store."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def pending(self, lane: Lane) -> int:
        """Messages of all devices that were not delivered, or not acknowledged; 0 is certain.

        All that was published before the call and is not counted is in the database.
        """
        try:
            async with asyncio.timeout(LIMIT_S):
                jetstream = self._connection.client_now().jetstream()
                info = await jetstream.consumer_info(STREAM_OF[lane], CONSUMER)
                honour_cancellation()
        except (*NATS_ERRORS, BusDown):
            return UNKNOWN
        return (info.num_pending or 0) + (info.num_ack_pending or 0)
