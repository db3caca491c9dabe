"""The nouns that cross the hub's rooms, and the Protocols by which rooms are handed to one another.

Times that end in `_s` are UTC seconds since 1970, unless the name says `mono`: seconds of a clock that
never goes back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from contract.messages import HubLoad
from contract.status import Lane, Priority, Status
from contract.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message of a JetStream stream; it comes again until it is acknowledged."""

    subject: str
    headers: Mapping[str, str]
    body: bytes
    acknowledge: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Inbound:
    """One core message from a device: who (by its subject), what, and where its answer goes.

    `reply` is "" where no answer is wanted; it was checked to lie in the device's own inbox.
    """

    device: str
    kind: str
    rest: tuple[str, ...]
    headers: Mapping[str, str]
    body: bytes
    reply: str
    arrived_mono_s: float


@dataclass(frozen=True, slots=True)
class Ask:
    """Windows that somebody wants judged. `budget_s` None means: whenever.

    The pair (device, request) is the identity: asked twice, it is run once.
    """

    device: str
    request: str
    priority: Priority
    model: str
    feature_digest: str
    features: Tensor
    arrived_mono_s: float
    budget_s: float | None
    metered: bool = True
    """Whether it counts against the rate of the device; the hub's own asks do not."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an ask ended: one entry a row in the three tuples if the status is OK, else an error."""

    status: Status
    model: str = ""
    release: int = 0
    labels: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    confidences: tuple[float, ...] = ()
    error: str = ""
    retry_after_ms: float = 0.0
    queue_ms: float = 0.0
    run_ms: float = 0.0
    batch: int = 0


class DeliverySource(Protocol):
    """Messages of one lane, oldest first; the same one may come again.

    Failure: raises BusError when there is no connection. Cancellation: safe; what was fetched and not
    acknowledged comes again.
    """

    async def fetch(self, *, max_messages: int, wait_s: float) -> list[Delivery]:
        """All that has arrived, at most `max_messages`; empty when nothing came within `wait_s`."""


class Judge(Protocol):
    """Answers asks; an ask always ends in exactly one outcome, within its budget."""

    async def judge(self, ask: Ask) -> Outcome:
        """The outcome; cancelling the call drops the answer."""


class LoadGauge(Protocol):
    """Says how busy the hub's models are."""

    def load(self) -> HubLoad:
        """Rows that wait, and how long a new one would wait."""


class Backlog(Protocol):
    """Says how much of a lane the hub has still to store."""

    async def pending(self, lane: Lane) -> int:
        """Messages of a lane, of all devices, that the server holds and the hub has not acknowledged."""


class Post(Protocol):
    """Sends core messages; never blocks, and drops (counted) what cannot be sent."""

    def post(self, subject: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Hands one message to the connection."""
