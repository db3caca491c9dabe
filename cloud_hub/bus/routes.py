"""Core messages from devices reach their handlers; nobody is answered outside its own inbox."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg

from cloud_hub.metrics import HubMetrics
from cloud_hub.types import Inbound
from contract import subjects

MAX_WAITING: Final = 8192
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024

INFER: Final = "inf"
CANCEL: Final = "can"
STATE: Final = "state"
FILTERS: Final = {
    INFER: f"{subjects.ROOT}.*.inf.*.*",
    CANCEL: f"{subjects.ROOT}.*.can.*",
    STATE: f"{subjects.ROOT}.*.state",
}
ANSWERED: Final = frozenset({INFER, STATE})
"""Kinds of message that are requests; hubs share them, while a cancel goes to every hub."""

log = structlog.get_logger()

Handler = Callable[[Inbound], None]
"""Takes one message and returns at once: the messages of a kind are handled one after another."""


class Routes:
    """A preparation: subscribes the handlers, as they are then, on a new client."""

    def __init__(self, handlers: Mapping[str, Handler], *, metrics: HubMetrics) -> None:
        self._handlers = handlers
        self._metrics = metrics

    async def __call__(self, client: Client) -> None:
        """Subscribes every handler; requests are shared among the hubs."""
        for kind in self._handlers:
            await client.subscribe(
                FILTERS[kind],
                queue=subjects.QUEUE_GROUP if kind in ANSWERED else "",
                cb=self._on_message,
                pending_msgs_limit=MAX_WAITING,
                pending_bytes_limit=MAX_WAITING_BYTES,
            )

    async def _on_message(self, message: Msg) -> None:
        address = subjects.parse(message.subject)
        if address is None or address.kind not in self._handlers:
            self._drop("bad_subject", message.subject)
            return
        if address.kind in ANSWERED and not subjects.is_reply_of(address.device, message.reply):
            self._drop("foreign_reply" if message.reply else "no_reply", address.device)
            return
        self._handlers[address.kind](
            Inbound(
                device=address.device,
                kind=address.kind,
                rest=address.rest,
                headers=message.headers or {},
                body=message.data,
                reply=message.reply,
                arrived_mono_s=time.monotonic(),
            )
        )

    def _drop(self, reason: str, who: str) -> None:
        self._metrics.dropped.labels(reason).inc()
        log.warning("bus_request_dropped", key=reason, reason=reason, who=who[:80])
