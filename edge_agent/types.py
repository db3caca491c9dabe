"""The nouns of the device, in the order in which a reading meets them, and the Protocols between rooms.

Batches are columns: n messages, readings or windows are n-long lists or arrays, never n objects.
Wall times are UTC seconds since 1970 (float64), monotonic times are nanoseconds (int64).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from contract.messages import Clock as ClockStamp
from contract.messages import Watermark
from contract.status import Fault, Health, Lane, Reason, RowClass, Status, Tier

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]


class Clock(Protocol):
    """Where time comes from; a replay brings its own."""

    def wall_s(self) -> float:
        """UTC seconds since 1970."""

    def mono_ns(self) -> int:
        """Nanoseconds that never go back."""

    def stamp(self) -> ClockStamp:
        """The clocks together, for an event."""


# --- messages --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """All MQTT publishes that had arrived, in order of arrival: n-long columns.

    `session` names the broker session (its client id), the scope of packet ids. `mids` is 0 at QoS 0.
    """

    session: str
    topics: list[str | None]
    """None where the topic was not valid UTF-8."""
    payloads: list[bytes]
    qos: list[int]
    mids: list[int]
    dup: list[bool]
    retained: list[bool]
    arrivals_s: F64
    arrivals_ns: I64
    new_session: bool = False
    """Whether the broker knew nothing of the session when these came: its packet ids begin anew."""

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.payloads)


class Source(Protocol):
    """Brings messages in.

    Order: batches come in order of arrival. Duplicates: a source may repeat a message that was not
    acknowledged (`dup` is then set). Failure: a source reconnects by itself. Cancellation: safe.
    """

    async def next_batch(self) -> MessageBatch | None:
        """All that has arrived, at least one message; None when the source has ended."""

    def acknowledge(self, batch: MessageBatch) -> None:
        """Lets the broker forget these messages; called after the commit, never blocks."""


class Publisher(Protocol):
    """Takes MQTT messages out; never blocks, never raises for a broker that is away."""

    def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        """Hands one message to the broker client."""

    def flush(self) -> None:
        """Writes what was handed over, as far as the broker takes it now."""


# --- readings --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadingBatch:
    """n readings of streams of one kind (one `[[stream]]` table): c channels each.

    `slots` [n] are the streams' slots in their kind; `messages` [n] index the MessageBatch.
    `values` [n, c] hold NaN where a channel is missing or was rejected. `own_s` [n] are the payload's
    own times that were checked and not simply used, else NaN; None where no reading has one.
    """

    kind: int
    slots: I32
    messages: I32
    times_s: F64
    arrivals_s: F64
    arrivals_ns: I64
    values: F64
    flags: U8
    own_s: F64 | None = None

    def __len__(self) -> int:
        """The number of readings."""
        return len(self.slots)


@dataclass(frozen=True, slots=True)
class FaultNote:
    """Something that was not used, or used with a flag: why, how often, and one sample of it."""

    fault: Fault
    count: int
    topic: str
    stream: str
    detail: str
    sample: bytes


# --- windows ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WindowBatch:
    """m due windows of streams of one kind: values [m, n, c], times [m, n].

    `numbers` [m] is the running number, per stream, of the window's last reading;
    `last` [m] is that reading's index in the ReadingBatch.
    """

    kind: int
    slots: I32
    numbers: I64
    last: I32
    values: F64
    times_s: F64
    arrivals_ns: I64

    def __len__(self) -> int:
        """The number of windows."""
        return len(self.slots)


# --- verdicts --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one window, with where it came from.

    `number` is the running number, per stream, of the window's last reading; `window_from_s` the
    time of its first. `stages_ms` is empty in a replay; `arrival_ns` (monotonic) is when the message
    came that completed the window.
    """

    id: str
    stream: str
    time_s: float
    label: str
    score: float
    confidence: float
    tier: Tier
    model: str
    release: int
    stale_ms: float
    reasons: tuple[Reason, ...]
    stages_ms: dict[str, float]
    number: int
    window_from_s: float
    arrival_ns: int = 0


@dataclass(frozen=True, slots=True)
class Alarm:
    """A verdict to act on: one per episode of one stream."""

    episode: str
    raised_s: float
    verdict: Verdict


# --- the outbox ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewRow:
    """A row to be stored: its class, its encoded body, how many readings it holds.

    `model` names the family of an escalation (it is a token of the subject), else "".
    """

    kind: RowClass
    body: bytes
    readings: int = 0
    model: str = ""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row as it lies in the outbox."""

    seq: int
    kind: RowClass
    body: bytes
    readings: int
    model: str
    created_s: float


@dataclass(frozen=True, slots=True)
class Packets:
    """The packet ids (uint16) and content hashes (uint64) of the QoS 1 messages in one commit."""

    session: str
    mids: NDArray[np.uint16]
    hashes: NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything the device remembers of one stream, as of the commit that carries it."""

    stream: str
    body: bytes


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Rows of one class that were given up in memory: they take their numbers, and leave a gap."""

    kind: RowClass
    rows: int
    readings: int


class Urgency(Enum):
    """How soon a commit must be on the disk: SOON is within a second, when nobody was promised it."""

    NOW = "now"
    SOON = "soon"


class Round(Enum):
    """What a commit says about the checkpoints of all streams together (`outbox/store.py` explains)."""

    NONE = "none"
    """Nothing: its checkpoints, if any, stand for their own streams only."""
    BEGIN = "begin"
    """A round begins: until its END every stream changed up to this commit is checkpointed."""
    END = "end"
    """The round is complete: rows up to its BEGIN are not needed any more to rebuild windows."""
    WHOLE = "whole"
    """Both at once: this commit carries the checkpoint of every stream changed since the last round."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What one batch of messages led to; stored whole or not at all."""

    rows: tuple[NewRow, ...] = ()
    packets: tuple[Packets, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    pending: tuple[tuple[str, bytes], ...] = ()
    """Verdicts that wait for the hub: id and encoded local answer; `settled` are ids of those given."""
    settled: tuple[str, ...] = ()
    round: Round = Round.NONE
    given_up: tuple[GivenUp, ...] = ()
    messages: int = 0
    """How many messages wait at a broker for their acknowledgement until this is stored."""
    urgency: Urgency = Urgency.NOW


@dataclass(frozen=True, slots=True)
class Recovery:
    """What the outbox knew when the agent last stopped, in whatever way.

    `checkpoints` are per stream: the `tel` seq they include, and the body. `rows` are the `raw` rows
    beyond the lowest checkpoint, in order. `epochs` per lane; `packets` newest last.
    """

    epoch: str
    checkpoints: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    rows: tuple[StoredRow, ...] = ()
    packets: tuple[Packets, ...] = ()
    pending: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class LaneState:
    """One lane of the outbox: the marks, and what it holds now."""

    next_seq: int
    sent: int
    applied: int
    first_kept: int
    rows: int
    readings: int
    bytes: int
    oldest_s: float | None


@dataclass(frozen=True, slots=True)
class OutboxState:
    """The outbox at a glance; `shed` counts readings and rows given up, by class."""

    epoch: str
    lanes: dict[Lane, LaneState]
    bytes: int
    quota_bytes: int
    shed: dict[str, int]
    dead_letters: int
    commits: int
    fault: str = ""
    """Why the outbox cannot write at present, or ""."""


# --- the link --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for a request."""

    status: Status
    body: bytes
    retry_after_ms: float = 0.0
    queue_ms: float = 0.0
    run_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class LinkState:
    """The link to the hub as the routing decision sees it."""

    health: Health
    rtt_ms: float
    since_s: float
    why: str = ""
    connection: int = 0
    """The running number of the connection to the server; 0 while there is none."""


class HubLink(Protocol):
    """Requests and durable publishes to the hub.

    Failure: raises only LinkError. Cancellation: safe at any await; a cancelled request leaves
    nothing behind.
    """

    def state(self) -> LinkState:
        """The link now."""

    async def request(
        self, subject: str, body: bytes, *, headers: dict[str, str], timeout_s: float
    ) -> Reply:
        """One request with a deadline."""

    async def publish(
        self, subject: str, body: bytes, *, headers: dict[str, str], timeout_s: float
    ) -> None:
        """Publishes into the hub's JetStream and waits for its acknowledgement."""

    def send(self, subject: str, body: bytes) -> None:
        """One core message, best effort."""


class Marks(Protocol):
    """What the forwarder needs of the outbox."""

    async def read(
        self, lane: Lane, *, after: int, max_bytes: int, max_rows: int
    ) -> Sequence[StoredRow]:
        """The next rows of a lane after `after`, in order, at least one if there is one."""

    async def mark_sent(self, lane: Lane, seq: int) -> None:
        """All up to `seq` was acknowledged by the server."""

    async def apply(self, lane: Lane, watermark: Watermark) -> None:
        """Deletes what the hub's database holds."""

    async def set_aside(self, lane: Lane, seq: int, reason: str) -> None:
        """Moves a row that can never be sent to the dead letters, and leaves a gap record."""

    def state(self) -> OutboxState:
        """The outbox now."""


JsonObject = dict[str, Any]
