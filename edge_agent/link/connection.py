"""The link to the hub: connects by itself, for ever, and always knows how it is.

`run` is its one task; nothing waits for it at start-up. Without a connection every request fails at once
with LinkDown, so that the device answers locally without delay.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nats.aio.msg import Msg

from contract.encoding import MAX_MESSAGE_BYTES, EncodingError, expand
from contract.status import Health, Status
from contract.subjects import (
    ENCODING,
    QUEUE_MS,
    RETRY_AFTER_MS,
    RUN_MS,
    STATUS,
    nudge_subject,
    state_subject,
)
from edge_agent.errors import (
    Forbidden,
    LinkDown,
    LinkError,
    LinkTimeout,
    NoResponders,
    NothingToSpare,
    Refused,
)
from edge_agent.link.backoff import reconnect_delay_s
from edge_agent.link.client import NatsClient, honour_cancel
from edge_agent.link.health import HealthEvent, HealthView, step
from edge_agent.link.translation import check_stored
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.settings import HubSettings
from edge_agent.types import Clock, LinkState, Reply

_log = get_logger()

PROBE_TIMEOUT_S: Final = 5.0
_PROBES: Final = 2
_LACKING_ATTEMPT: Final = 2
"""The wait stays that of the second attempt while it is this machine that lacks something."""
_MAX_WAITING: Final = 4096
_MAX_OUTGOING: Final = 256
_RTT_WEIGHT: Final = 0.2
_NO_RESPONDERS: Final = "503"
_FRAME_BYTES: Final = 16
_MOST_HEADER_MS: Final = 60_000.0
_EVENT_OF: Final = {
    Health.ONLINE: Event.HUB_ONLINE,
    Health.DEGRADED: Event.HUB_DEGRADED,
    Health.OFFLINE: Event.HUB_OFFLINE,
}


@dataclass(frozen=True, slots=True)
class _Waiting:
    subject: str
    reply: asyncio.Future[Msg]


class Link:
    """Implements `HubLink` over NATS.

    Order: messages leave in the order of the calls. Duplicates: none made here. Failure: LinkError only.
    Cancellation: a cancelled call leaves nothing behind.
    """

    def __init__(self, settings: HubSettings, *, device: str, clock: Clock) -> None:
        self.on_change: Callable[[], None] = _nothing
        """Called after the connection or the health has changed; must not block."""
        self.on_nudge: Callable[[], None] = _nothing
        """Called when the hub asks the device to ask; must not block."""
        self._settings = settings
        self._device = device
        self._clock = clock
        self._client: NatsClient | None = None
        self._connection = 0
        self._view = HealthView(
            why="never connected" if settings.urls else "no hub is configured",
            since_s=clock.wall_s(),
        )
        self._rtt_ms = 0.0
        self._waiting: dict[str, _Waiting] = {}
        self._token = 0
        self._outgoing: deque[tuple[str, bytes]] = deque(maxlen=_MAX_OUTGOING)
        self._outgoing_added = asyncio.Event()
        self._random = secrets.SystemRandom()

    def state(self) -> LinkState:
        """The link now."""
        return LinkState(
            health=self._view.health,
            rtt_ms=self._rtt_ms,
            since_s=self._view.since_s,
            why=self._view.why,
            connection=self._connection if self._client is not None else 0,
        )

    # --- requests -------------------------------------------------------------------------------

    async def request(
        self, subject: str, body: bytes, *, headers: dict[str, str], timeout_s: float
    ) -> Reply:
        """One request with a deadline; what comes back also tells how the hub is."""
        is_state = subject == state_subject(self._device)
        try:
            message = await self._ask(subject, body, headers=headers, timeout_s=timeout_s)
            reply = _reply_of(message)
        except NoResponders:
            self._note(HealthEvent.NO_RESPONDERS)
            raise
        except LinkTimeout:
            self._note(HealthEvent.STATE_TIMEOUT if is_state else HealthEvent.TIMEOUT)
            raise
        self._note(HealthEvent.BUSY if reply.status is Status.BUSY else HealthEvent.ANSWERED)
        return reply

    async def publish(
        self, subject: str, body: bytes, *, headers: dict[str, str], timeout_s: float
    ) -> None:
        """Publishes into the hub's JetStream and waits for its acknowledgement.

        LinkTimeout: unknown. NoResponders: no stream takes the subject. Forbidden: a
        person must change the permissions. Refused: never. LinkError: the
        stream takes nothing at present (full, or the server is in trouble).
        """
        message = await self._ask(subject, body, headers=headers, timeout_s=timeout_s)
        check_stored(message.data, subject=subject)

    def send(self, subject: str, body: bytes) -> None:
        """One core message, best effort: dropped without a connection, or when 256 wait."""
        if self._client is not None:
            self._outgoing.append((subject, body))
            self._outgoing_added.set()

    async def _ask(
        self, subject: str, body: bytes, *, headers: dict[str, str], timeout_s: float
    ) -> Msg:
        client = self._client
        if client is None:
            raise LinkDown(f"{subject}: {self._view.why}")
        size = len(body) + _FRAME_BYTES
        size += sum(len(name) + len(value.encode()) + 4 for name, value in headers.items())
        if size > MAX_MESSAGE_BYTES:
            raise Refused(f"{subject}: {size} bytes are over the limit of {MAX_MESSAGE_BYTES}")
        if len(self._waiting) >= _MAX_WAITING:
            raise LinkDown(f"{subject}: {_MAX_WAITING} requests wait already")
        self._token += 1
        token = format(self._token, "x")
        waiting = _Waiting(subject, asyncio.get_running_loop().create_future())
        self._waiting[token] = waiting
        try:
            async with asyncio.timeout(timeout_s):
                await client.publish(
                    subject, body, reply=f"{client.inbox}.{token}", headers=headers or None
                )
                message = await waiting.reply
        except TimeoutError:
            raise LinkTimeout(f"{subject}: no answer in {timeout_s:g} s") from None
        finally:
            del self._waiting[token]
            if not waiting.reply.cancel() and not waiting.reply.cancelled():
                waiting.reply.exception()  # seen: a failure that came with the timeout is no news
        if not message.data and (message.headers or {}).get("Status") == _NO_RESPONDERS:
            raise NoResponders(f"{subject}: nobody listens")
        return message

    def _replied(self, token: str, message: Msg) -> None:
        waiting = self._waiting.get(token)
        if waiting is not None and not waiting.reply.done():
            waiting.reply.set_result(message)

    def _forbidden(self, subject: str) -> None:
        _log.warning(Event.HUB_FORBIDDEN, subject=subject)
        self._fail_waiting(
            lambda one: one.subject.lower() == subject.lower(),
            Forbidden(f"{subject}: the server does not allow this device to publish there"),
        )

    def _fail_waiting(self, which: Callable[[_Waiting], bool], error: LinkError) -> None:
        for waiting in self._waiting.values():
            if which(waiting) and not waiting.reply.done():
                waiting.reply.set_exception(error)

    # --- the connection -------------------------------------------------------------------------

    async def run(self) -> None:
        """Keeps a connection for ever; returns at once when no hub is configured."""
        if not self._settings.urls:
            return
        attempt = -1
        while True:
            honour_cancel()
            if attempt >= 0:
                chance = self._random.random()
                jitter_s = self._settings.reconnect_jitter_s
                await asyncio.sleep(reconnect_delay_s(attempt, jitter_s=jitter_s, chance=chance))
            try:
                client = await self._connect()
            except LinkError as error:
                if attempt < 1:
                    _log.warning(Event.HUB_UNREACHABLE, error=str(error))
                attempt = max(attempt, 0) + 1
                if isinstance(error, NothingToSpare):  # no server to be spared the attempts
                    attempt = min(attempt, _LACKING_ATTEMPT)
                continue
            attempt = 0
            try:
                why = await self._serve(client)
                _log.warning(Event.HUB_REBUILT, why=why)
            finally:
                self._client = None
                self._fail_waiting(lambda _: True, LinkTimeout("the connection was lost"))
                self._note(HealthEvent.DISCONNECTED)
                await client.discard()

    async def _connect(self) -> NatsClient:
        return await NatsClient.connect(
            self._settings,
            device=self._device,
            on_reply=self._replied,
            on_forbidden=self._forbidden,
            subscriptions={nudge_subject(self._device): self._nudged},
        )

    async def _serve(self, client: NatsClient) -> str:
        """From connected to lost; returns why."""
        self._outgoing.clear()
        self._client = client
        self._connection += 1
        _log.info(Event.HUB_CONNECTED, connection=self._connection)
        self._note(HealthEvent.CONNECTED)
        sender = asyncio.create_task(self._send_out(client), name="link send")
        try:
            return await self._probe(client)
        finally:
            sender.cancel()
            await asyncio.wait({sender})

    async def _probe(self, client: NatsClient) -> str:
        """Probes the server until two probes in a row fail or the connection ends; returns which."""
        failures = 0
        first = True
        while True:
            honour_cancel()
            if failures == 0 and not first:
                try:
                    async with asyncio.timeout(self._settings.probe_interval_s):
                        await client.lost.wait()
                except TimeoutError:
                    pass
            first = False
            if client.lost.is_set():
                return "the connection ended"
            try:
                self._measured(await client.round_trip_s(timeout_s=PROBE_TIMEOUT_S))
            except LinkError as error:
                failures += 1
                self._note(HealthEvent.PROBE_FAILED)
                if failures >= _PROBES:
                    return f"{failures} probes failed, the last with {error}"
            else:
                failures = 0
                self._note(HealthEvent.PROBE_OK)

    async def _send_out(self, client: NatsClient) -> None:
        while True:
            await self._outgoing_added.wait()
            self._outgoing_added.clear()
            while self._outgoing:
                subject, body = self._outgoing.popleft()
                try:
                    await client.publish(subject, body)
                except LinkError as error:
                    _log.debug(Event.HUB_SEND_FAILED, subject=subject, error=str(error))

    # --- health ---------------------------------------------------------------------------------

    def _measured(self, round_trip_s: float) -> None:
        measured_ms = round_trip_s * 1e3
        if self._rtt_ms:
            measured_ms = self._rtt_ms + _RTT_WEIGHT * (measured_ms - self._rtt_ms)
        self._rtt_ms = measured_ms

    def _nudged(self) -> None:
        self.on_nudge()

    def _note(self, event: HealthEvent) -> None:
        before = self._view
        self._view = step(before, event, now_s=self._clock.wall_s())
        changed = self._view.health is not before.health
        if changed:
            level = _log.info if self._view.health is Health.ONLINE else _log.warning
            level(_EVENT_OF[self._view.health], was=before.health, why=self._view.why)
        if changed or event in (HealthEvent.CONNECTED, HealthEvent.DISCONNECTED):
            self.on_change()


def _reply_of(message: Msg) -> Reply:
    """The reply in a message; one that cannot be read counts as an internal error of the hub."""
    headers = message.headers or {}
    try:
        status = Status(headers.get(STATUS, ""))
        body = expand(message.data, headers.get(ENCODING, ""))
    except (ValueError, EncodingError):
        return Reply(Status.INTERNAL, b"")
    return Reply(
        status,
        body,
        retry_after_ms=_number(headers, RETRY_AFTER_MS),
        queue_ms=_number(headers, QUEUE_MS),
        run_ms=_number(headers, RUN_MS),
    )


def _number(headers: dict[str, str], name: str) -> float:
    """A number of milliseconds in a header: finite, from 0 to a minute; else 0."""
    try:
        value = float(headers.get(name, 0))
    except ValueError:
        return 0.0
    return min(max(value, 0.0), _MOST_HEADER_MS) if math.isfinite(value) else 0.0


def _nothing() -> None:
    """Does nothing, until somebody wants to be called."""
