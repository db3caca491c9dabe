"""Makes the three JetStream streams and the hub's durable consumer on each, or refuses what cannot be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from cloud_hub.errors import BusDown, StartRefused
from cloud_hub.settings import IngestSettings, NatsSettings
from contract.status import Lane
from contract.subjects import CONSUMER, DUPLICATE_WINDOW_S, STREAM_OF, lane_filter

FETCHES_IN_FLIGHT: Final = 4
_COMPARED: Final = (
    "subjects", "max_bytes", "discard", "duplicate_window", "num_replicas", "max_age",
)  # fmt: skip


class StreamKeeper:
    """A preparation: after it, devices can publish their lanes and the hub can fetch them."""

    def __init__(self, nats: NatsSettings, ingest: IngestSettings, lanes: Sequence[Lane]) -> None:
        self._nats = nats
        self._ingest = ingest
        self._lanes = lanes

    async def __call__(self, client: Client) -> None:
        """Makes what is missing; raises BusDown to try again, StartRefused for a stream that drops data."""
        jetstream = client.jetstream()
        for lane in self._lanes:
            try:
                await self._keep_stream(jetstream, lane)
                await jetstream.add_consumer(STREAM_OF[lane], self._consumer())
            except ServiceUnavailableError as error:
                raise BusDown(
                    "JetStream does not answer: switch it on in the server's configuration (jetstream {})"
                ) from error
            except APIError as error:
                raise BusDown(
                    f"stream {STREAM_OF[lane]} cannot be made: {error.description}. "
                    "Is [nats] max_stream_bytes more than the server may store?"
                ) from error

    async def _keep_stream(self, jetstream: JetStreamContext, lane: Lane) -> None:
        wanted = self._stream(lane)
        try:
            found = (await jetstream.stream_info(STREAM_OF[lane])).config
        except NotFoundError:
            await jetstream.add_stream(wanted)
            return
        if found.retention != RetentionPolicy.WORK_QUEUE or found.storage != StorageType.FILE:
            raise StartRefused(
                f"the stream {wanted.name} exists with retention {found.retention} and storage "
                f"{found.storage}; it must be a workqueue on file, or data is dropped while it is "
                "acknowledged. Remove the stream when it is empty; the hub makes it anew."
            )
        if any(getattr(found, name) != getattr(wanted, name) for name in _COMPARED):
            changes = {name: getattr(wanted, name) for name in _COMPARED}
            await jetstream.update_stream(replace(found, **changes))

    def _stream(self, lane: Lane) -> StreamConfig:
        return StreamConfig(
            name=STREAM_OF[lane],
            subjects=[lane_filter(lane)],
            retention=RetentionPolicy.WORK_QUEUE,
            storage=StorageType.FILE,
            discard=DiscardPolicy.NEW,
            max_bytes=self._nats.max_stream_bytes,
            max_age=0,
            duplicate_window=DUPLICATE_WINDOW_S,
            num_replicas=self._nats.replicas,
        )

    def _consumer(self) -> ConsumerConfig:
        return ConsumerConfig(
            durable_name=CONSUMER,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self._ingest.ack_wait_s,
            max_ack_pending=FETCHES_IN_FLIGHT * self._ingest.max_messages,
            max_deliver=-1,
        )
