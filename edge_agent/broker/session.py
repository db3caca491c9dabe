"""A broker session: messages in as batches, acknowledged only when told to; messages out."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from edge_agent.broker.client import Will
from edge_agent.broker.connection import Connection
from edge_agent.broker.inbox import Inbox, ReceivedBatch
from edge_agent.broker.options import BrokerOptions
from edge_agent.broker.receipts import Receipts
from edge_agent.observe.broker_state import BrokerState
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.types import Clock, MessageBatch

ONLINE = b"online"
OFFLINE = b"offline"


class BrokerSession:
    """Order: batches come in order of arrival. Duplicates: what was not acknowledged comes again
    with `dup`, after a reconnect or (nats-server, after its `ack_wait`) without one. Failure: reconnects by itself and never raises for a broker that
    is away. Memory: bounded; beyond the bound the socket is not read.

    `run` belongs in the agent's TaskGroup. Drain: `stop`, take what is left, acknowledge, `close`.
    """

    def __init__(
        self,
        options: BrokerOptions,
        *,
        filters: Sequence[tuple[str, int]],
        unwanted: Sequence[str] = (),
        status_topic: str | None,
        clock: Clock,
        rng: random.Random | None = None,
    ) -> None:
        self.name = options.name
        self._inbox = Inbox(
            options.name,
            clock=clock,
            max_batch=options.max_batch_messages,
            max_messages=options.max_buffered_messages,
            max_bytes=options.max_buffered_bytes,
        )
        self._receipts = Receipts()
        self._status_topic = status_topic
        self._wake: Callable[[], None] = _nobody
        self._stopped = False
        self._since_s = time.monotonic()
        self._received = self._acknowledged = self._stale = 0
        self._published = self._dropped = 0
        self._drop_told = False
        self._log = get_logger(broker=options.url, client_id=options.client_id)
        self._connection = Connection(
            options,
            # QoS 2 would be acknowledged (PUBREC) before our commit: never ask for it.
            filters=[(topic, min(qos, 1)) for topic, qos in filters],
            unwanted=unwanted,
            will=None if status_topic is None else Will(status_topic, OFFLINE),
            on_message=self._message,
            on_connected=self._on_connected,
            on_lost=self._on_lost,
            rng=rng,
        )
        self._client = self._connection.client

    async def run(self) -> None:
        """Keeps the connection until `close`; a broker that is away is tried for ever."""
        await self._connection.run()

    def attach(self, wake: Callable[[], None]) -> None:
        """`wake` is called when there is something to take, and when there will be no more."""
        self._wake = wake

    def take(self) -> MessageBatch | None:
        """All that has arrived, at most `max_batch_messages`; None when there is nothing now."""
        batch = self._inbox.take()
        if batch is not None and not self._client.reading and self._inbox.roomy:
            self._connection.resume_reading()
        return batch

    @property
    def ended(self) -> bool:
        """Whether nothing can be taken any more."""
        return self._stopped and self._inbox.messages == 0

    @property
    def unwanted(self) -> list[str]:
        """Filters of the past that the broker has not forgotten yet, as far as is known."""
        return self._connection.unwanted

    def acknowledge(self, batch: MessageBatch) -> None:
        """Sends the PUBACKs of a batch, in order, one for each message; never blocks.

        A batch of an earlier connection is not acknowledged: its packet ids may mean other
        messages by now. The broker sends those messages again.
        """
        if not isinstance(batch, ReceivedBatch):
            raise TypeError("acknowledge the batch that was taken, not a copy of its columns")
        if not self._connection.connected or batch.connection != self._connection.number:
            self._stale += sum(1 for qos in batch.qos if qos)
            return
        for mid, receipt in zip(batch.mids, batch.receipts, strict=True):
            if receipt and self._receipts.settle(mid, receipt):
                self._client.ack(mid, 1)
                self._acknowledged += 1

    def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        """Hands one message to the broker; never blocks, never raises for a broker that is away.

        While it is away, QoS 1 messages wait (up to `max_queued_messages`) and QoS 0 messages are
        dropped; what is dropped is counted.
        """
        options = self._connection.options
        if qos == 0 and (
            not self._connection.connected or self._client.unsent >= options.max_unsent_packets
        ):
            self._drop()
            return
        if self._client.hand_over(topic, payload, qos=qos, retain=retain) is None:
            self._drop()
        else:
            self._published += 1

    def flush(self) -> None:
        """Writes what was handed over to the broker's socket, as far as it takes it now."""
        self._connection.flush()

    def stop(self) -> None:
        """Takes in nothing more; what has arrived can still be taken and acknowledged.

        What comes later is not acknowledged, so the broker keeps it for the next start.
        """
        self._stopped = True
        self._connection.resume_reading()
        self._wake()

    async def close(self, *, timeout_s: float = 3.0) -> None:
        """Says `offline`, sends what is queued, disconnects, and lets `run` end."""
        self.stop()
        if self._status_topic is not None and self._connection.connected:
            self.publish(self._status_topic, OFFLINE, qos=1, retain=True)
        await self._connection.close(timeout_s=timeout_s)

    def state(self) -> BrokerState:
        """The session now."""
        connection = self._connection
        return BrokerState(
            name=self.name,
            url=connection.options.url,
            connected=connection.connected,
            why=connection.why,
            since_s=time.monotonic() - self._since_s,
            connections=connection.number,
            received=self._received,
            acknowledged=self._acknowledged,
            stale_acknowledgements=self._stale,
            published=self._published,
            dropped=self._dropped,
            waiting=self._inbox.messages,
            waiting_bytes=self._inbox.payload_bytes,
            paused=not self._client.reading,
            refused_filters=tuple(connection.refused_filters),
        )

    def _message(  # noqa: PLR0917
        self,
        topic: str | None,
        payload: bytes,
        qos: int,
        mid: int,
        dup: bool,  # noqa: FBT001 - the columns of a message, in their order
        retained: bool,  # noqa: FBT001
    ) -> None:
        if self._stopped or (qos and dup and self._receipts.in_hand(mid)):
            # A repeat of what waits for the disk here: one PUBACK will answer both.
            return
        inbox = self._inbox
        was_empty = inbox.messages == 0
        receipt = self._receipts.deliver(mid, dup=dup) if qos else 0
        inbox.append(topic, payload, qos=qos, mid=mid, dup=dup, retained=retained, receipt=receipt)
        self._received += 1
        if was_empty:
            self._wake()
        if inbox.full and self._client.reading:
            self._connection.pause_reading()
            self._log.warning(
                Event.BROKER_PAUSED, messages=inbox.messages, bytes=inbox.payload_bytes
            )

    def _drop(self) -> None:
        self._dropped += 1
        if not self._drop_told:
            self._drop_told = True
            self._log.warning(Event.BROKER_PUBLISH_DROPPED, dropped=self._dropped)

    def _on_connected(self) -> None:
        self._since_s = time.monotonic()
        self._drop_told = False
        self._inbox.begin_connection(
            self._connection.number, new_session=not self._connection.session_present
        )
        self._receipts.begin_connection()
        if self._inbox.full:
            self._connection.pause_reading()
        if self._status_topic is not None and not self._stopped:
            self.publish(self._status_topic, ONLINE, qos=1, retain=True)

    def _on_lost(self) -> None:
        self._since_s = time.monotonic()


def _nobody() -> None:
    """Nobody is attached yet."""
