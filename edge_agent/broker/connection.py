"""One connection to one broker, kept up for ever on the event loop, whatever the broker does."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from edge_agent.broker.backoff import full_jitter_s
from edge_agent.broker.client import Handlers, PahoClient, Will
from edge_agent.broker.dial import BrokerAway, NothingToSpare, dial
from edge_agent.broker.options import BrokerOptions
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger

_READ_BURST = 256
_FILTERS_PER_SUBSCRIBE = 50
_STEADY_S = 5.0
_LACKING_ATTEMPT = 2
"""The wait stays that of the second attempt while it is this machine that lacks something."""
_TICK_S = 1.0
_POLL_S = 0.01

MessageSink = Callable[[str | None, bytes, int, int, bool, bool], None]


class Connection:
    """Connects, subscribes, reconnects with full jitter, and never raises for a broker that is away.

    `unwanted` are filters that a persistent session may remember from the past; the broker is told to
    forget them, again at each connection until it has. `run` is the one task; everything else is
    called from the same event loop. `number` counts the connections that the broker accepted: packet
    ids are valid within one number only.
    """

    def __init__(
        self,
        options: BrokerOptions,
        *,
        filters: Sequence[tuple[str, int]] = (),
        unwanted: Sequence[str] = (),
        will: Will | None = None,
        on_message: MessageSink | None = None,
        on_connected: Callable[[], None] | None = None,
        on_lost: Callable[[], None] | None = None,
        on_published: Callable[[int], None] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.options = options
        self.number = 0
        self.session_present = False
        self.connected = False
        self.why = "not connected yet"
        self.refused_filters: list[str] = []
        self.unwanted = list(unwanted)
        self._filters = list(dict(filters).items())
        self._on_connected = on_connected
        self._on_lost = on_lost
        self._rng = rng or random.Random()  # noqa: S311 - jitter is no secret
        self._log = get_logger(broker=options.url, client_id=options.client_id)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lacking = False
        self._closing = asyncio.Event()
        self._gone = asyncio.Event()
        self._sock: socket.socket | None = None
        self._read_on = False
        self._write_due = False
        self._opened_s = 0.0
        self._accepted_s = 0.0
        self._subscribes: dict[int, list[str]] = {}
        self._unsubscribes: dict[int, list[str]] = {}
        self.client = PahoClient(
            options,
            Handlers(
                message=on_message or (lambda *_: None),
                accepted=self._accepted,
                refused=self._refused,
                subscribed=self._subscribed,
                unsubscribed=self._unsubscribed,
                published=on_published,
                lost=self._lost,
                socket_closing=self._socket_closing,
                wants_write=self._wants_write,
            ),
            will=will,
        )

    async def run(self) -> None:
        """Holds the connection until `close`; ends only then, or when it is cancelled."""
        self._loop = asyncio.get_running_loop()
        closing = asyncio.create_task(self._closing.wait(), name=f"closing {self.options.name}")
        attempt = 0
        try:
            while not self._closing.is_set():
                if await self._serve_once(closing):
                    attempt = 0
                if self._closing.is_set():
                    break
                delay_s = full_jitter_s(
                    attempt, chance=self._rng.random(), cap_s=self.options.backoff_cap_s
                )
                attempt += 1
                if self._lacking:  # no broker to be spared the attempts
                    attempt = min(attempt, _LACKING_ATTEMPT)
                await asyncio.wait({closing}, timeout=delay_s)
        finally:
            closing.cancel()
            self.client.drop("closed")

    async def close(self, *, timeout_s: float) -> None:
        """Sends what is queued, says goodbye, and lets `run` end; takes at most `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        client = self.client
        while self.connected and (client.unsent or client.unacknowledged):
            if time.monotonic() >= deadline_s:
                break
            await asyncio.sleep(_POLL_S)
        self._closing.set()
        if self._sock is not None:
            client.disconnect()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, deadline_s - time.monotonic())):
                    await self._gone.wait()
        client.drop("closed")

    def pause_reading(self) -> None:
        """Leaves what arrives in the socket, so that the broker feels the pressure."""
        self.client.reading = False
        self._reader(on=False)

    def resume_reading(self) -> None:
        """Reads again, also what a TLS layer already holds."""
        if not self.client.reading:
            self.client.reading = True
            if self._sock is not None and self._loop is not None:
                self._reader(on=True)
                self._loop.call_soon(self._readable)

    # --- one connection -----------------------------------------------------------------------

    async def _serve_once(self, closing: asyncio.Task[bool]) -> bool:
        """One attempt, and the connection's whole life; True when it lived for a while."""
        self._lacking = False
        dialling = dial(self.options)
        either: list[asyncio.Future[Any]] = [dialling, closing]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not dialling.done():
            dialling.cancel()
            return False
        try:
            sock = dialling.result()
        except BrokerAway as error:
            self._lacking = isinstance(error, NothingToSpare)
            self.why = str(error)
            self._log.warning(Event.BROKER_UNREACHABLE, why=self.why)
            return False
        self._gone.clear()
        self._sock = sock
        self._opened_s, self._accepted_s = time.monotonic(), 0.0
        self._subscribes = {}
        self._unsubscribes = {}
        self.why = ""
        self.client.open(sock)
        self._reader(on=True)
        while not self._gone.is_set():
            try:
                async with asyncio.timeout(_TICK_S):
                    await self._gone.wait()
            except TimeoutError:
                self._tick()
        if not self._accepted_s and not self._closing.is_set():
            self._log.warning(Event.BROKER_UNREACHABLE, why=self.why)
        return self._accepted_s > 0 and time.monotonic() - self._accepted_s >= _STEADY_S

    def _tick(self) -> None:
        now_s = time.monotonic()
        if not self._accepted_s and now_s - self._opened_s > self.options.connect_timeout_s:
            self.client.drop("no answer to CONNECT")
        elif (
            self._subscribes
            and self.client.reading
            and now_s - self._accepted_s > self.options.subscribe_timeout_s
        ):
            self.client.drop("no answer to SUBSCRIBE")
        else:
            self.client.tick()

    def _accepted(self, session_present: bool) -> None:  # noqa: FBT001 - paho's flag, handed on
        self.number += 1
        self.session_present = session_present
        self.connected = True
        self.why = ""
        self._accepted_s = time.monotonic()
        self._log.info(Event.BROKER_CONNECTED, session_present=session_present)
        self.refused_filters = []
        for start in range(0, len(self._filters), _FILTERS_PER_SUBSCRIBE):
            some = self._filters[start : start + _FILTERS_PER_SUBSCRIBE]
            _, mid = self.client.subscribe(some)
            if mid is not None:
                self._subscribes[mid] = [topic for topic, _ in some]
        if not session_present:
            self.unwanted = []
        for start in range(0, len(self.unwanted), _FILTERS_PER_SUBSCRIBE):
            past = self.unwanted[start : start + _FILTERS_PER_SUBSCRIBE]
            _, mid = self.client.unsubscribe(past)
            if mid is not None:
                self._unsubscribes[mid] = past
        if self._on_connected is not None:
            self._on_connected()

    def _refused(self, why: str) -> None:
        self.why = f"refused: {why}"
        self._log.error(Event.BROKER_REFUSED, why=why)

    def _subscribed(self, mid: int, granted: list[bool]) -> None:
        for topic, was_granted in zip(self._subscribes.pop(mid, []), granted, strict=False):
            if not was_granted:
                self.refused_filters.append(topic)
                self._log.error(Event.BROKER_SUBSCRIPTION_REFUSED, path=topic)

    def _unsubscribed(self, mid: int) -> None:
        forgotten = self._unsubscribes.pop(mid, [])
        self.unwanted = [topic for topic in self.unwanted if topic not in forgotten]

    def _lost(self, why: str) -> None:
        if self.connected and not self._closing.is_set():
            self._log.warning(Event.BROKER_LOST, why=why)
        if self.connected or not self.why:
            self.why = why
        was_connected, self.connected = self.connected, False
        self._gone.set()
        if was_connected and self._on_lost is not None:
            self._on_lost()

    # --- the socket on the loop ---------------------------------------------------------------

    def _reader(self, *, on: bool) -> None:
        if self._loop is None or self._sock is None or on == self._read_on:
            return
        if on and self.client.reading:
            self._loop.add_reader(self._sock, self._readable)
            self._read_on = True
        elif not on:
            self._loop.remove_reader(self._sock)
            self._read_on = False

    def _readable(self) -> None:
        sock = self._sock
        if sock is None or self._loop is None:
            return
        more = self.client.read(_READ_BURST)
        if more and isinstance(sock, ssl.SSLSocket) and self._sock is sock:
            # TLS may hold data that the socket no longer shows.
            self._loop.call_soon(self._readable)

    def _wants_write(self) -> None:
        if self._loop is not None and not self._write_due:
            self._write_due = True
            self._loop.call_soon(self._writable)

    def flush(self) -> None:
        """Writes what was handed over, as far as the socket takes it now."""
        if self._write_due:
            self._writable()

    def _writable(self) -> None:
        if self._sock is None or self._loop is None:
            self._write_due = False
            return
        self.client.loop_write()
        if self._sock is not None:
            if self.client.want_write():
                self._loop.add_writer(self._sock, self._writable)
            else:
                self._loop.remove_writer(self._sock)
                self._write_due = False

    def _socket_closing(self, sock: socket.socket) -> None:
        if self._loop is not None:
            self._loop.remove_reader(sock)
            self._loop.remove_writer(sock)
        self._sock = None
        self._read_on = False
        self._write_due = False
        self._gone.set()
