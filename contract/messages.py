"""The wire messages: MessagePack structs that devices and the hub exchange.

Readers ignore fields they do not know; a new major version of a message has a new `Edge-Schema`.
Times are UTC seconds since 1970 as floats; columns are little-endian bytes, their shape beside them.
"""

from __future__ import annotations

import msgspec

from contract.status import Lane, RowClass, Tier
from contract.tensors import Tensor

SCHEMA_VERSION = 1
LATENCY_GROWTH = 1.1
"""Width of a latency bucket: percentiles read from the buckets are within 5 % of the truth."""


class Clock(msgspec.Struct, frozen=True):
    """When something happened, and how far the wall clock may be trusted."""

    boot: str
    mono_s: float
    wall_s: float
    trusted: bool


class ReadingGroup(msgspec.Struct, frozen=True):
    """Some readings of one stream, in columns: n readings of c channels.

    `first` is the index of the group's first reading in its row. `times` and `arrivals` are float64
    [n], `values` float64 [n, c] with NaN for a channel that was missing or rejected, `flags`
    uint8 [n] with the bits of `ReadingFlag`.

    `own` is float64 [n]: the payload's own time where it was checked and not simply used, because it is
    impossible (the arrival is then in `times`) or because the device's clock could not judge it; NaN
    elsewhere. It is empty where no reading has one.
    """

    stream: str
    first: int
    count: int
    channels: tuple[str, ...]
    units: tuple[str, ...]
    times: bytes
    arrivals: bytes
    values: bytes
    flags: bytes
    own: bytes = b""


class RawRow(msgspec.Struct, frozen=True):
    """A `raw` row: one committed batch of at most 256 readings."""

    clock: Clock
    groups: tuple[ReadingGroup, ...]


class VerdictEvent(msgspec.Struct, frozen=True):
    """A `verdict` or `alarm` row: a verdict that changed a label, was escalated, or raised an alarm."""

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
    reasons: tuple[str, ...]
    stages_ms: dict[str, float]
    clock: Clock
    window_from_s: float = 0.0


class Revision(msgspec.Struct, frozen=True):
    """A later, better answer to a verdict that was already given.

    `seq` is given by the hub (0 in a revision that the device made from a late reply). `clock` is the
    device's, in a revision that the device made.
    """

    verdict: str
    stream: str
    label: str
    score: float
    confidence: float
    model: str
    release: int
    time_s: float
    seq: int = 0
    clock: Clock | None = None


class Gap(msgspec.Struct, frozen=True):
    """What was given up of a lane, and why; the hub counts the numbers it covers as applied.

    A stride of 1 or less covers every row from first to last; a larger one only the rows whose number
    the stride does not divide (every `stride`th was kept). `readings` is how many were lost.

    `epoch` is "" where the gap is in the epoch of its own row. Another one says that the outbox of that
    epoch is lost: `readings` is then what the rows first..last held together, and whatever of them the
    hub has is no loss.
    """

    lane: Lane
    first: int
    last: int
    stride: int
    readings: int
    reason: str
    epoch: str = ""
    exact: bool = True
    """Whether `readings` is known, and not an estimate."""


class Escalation(msgspec.Struct, frozen=True):
    """A window for the hub without a waiting caller; the answer comes down as a revision."""

    verdict: str
    stream: str
    model: str
    release: int
    feature_digest: str
    features: Tensor
    label: str
    confidence: float
    time_s: float


class Rollup(msgspec.Struct, frozen=True):
    """What one stream decided in an interval, when no single verdict was worth an event."""

    stream: str
    from_s: float
    to_s: float
    verdicts: int
    by_tier: dict[str, int]
    by_label: dict[str, int]
    faults: dict[str, int]
    score_max: float
    latency_buckets: dict[int, int]
    """Verdict latencies as a mergeable histogram: bucket i counts those in (1.1^(i-1), 1.1^i] ms."""
    clock: Clock | None = None
    """The device's clocks at the end of the interval; a device of an earlier version sends none."""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One row of a lane as it travels: its number, its class, and its encoded body."""

    seq: int
    kind: RowClass
    body: bytes


class RowMessage(msgspec.Struct, frozen=True):
    """Consecutive rows of one lane of one device."""

    epoch: str
    lane: Lane
    rows: tuple[Row, ...]


class InferRequest(msgspec.Struct, frozen=True):
    """Asks a model of the hub about one or more windows: features float32 [b, f]."""

    model: str
    feature_digest: str
    features: Tensor
    stream: str = ""
    release: int = 0


class InferAnswer(msgspec.Struct, frozen=True):
    """The hub's answer, one entry a row; empty unless the status is OK."""

    model: str
    release: int
    labels: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    confidences: tuple[float, ...] = ()
    error: str = ""


class LaneReport(msgspec.Struct, frozen=True):
    """What a device says of one lane: next number to be given, highest sent, lowest kept."""

    epoch: str
    next_seq: int
    sent: int
    first_kept: int


class InstalledModel(msgspec.Struct, frozen=True):
    """A release that runs on a device."""

    family: str
    release: int
    variant: str


class StateReport(msgspec.Struct, frozen=True):
    """Up: a device's heartbeat and reported state."""

    agent: str
    clock: Clock
    lanes: dict[str, LaneReport]
    models: tuple[InstalledModel, ...] = ()
    streams: int = 0
    readings: int = 0
    verdicts: int = 0
    revised_to: int = 0
    etag: str = ""
    degraded: tuple[str, ...] = ()
    """What is not as it should be, a sentence each: safe mode, an outbox that cannot write, a model."""


class Watermark(msgspec.Struct, frozen=True):
    """What the hub's database holds of a lane: all up to `applied`, except `missing` beyond it.

    `missing` are closed ranges above `applied` that a later row shows to be absent; `pending` counts
    the messages of all devices which the hub's consumer has still to read.
    """

    epoch: str
    applied: int
    missing: tuple[tuple[int, int], ...] = ()
    pending: int = 0


class HubLoad(msgspec.Struct, frozen=True):
    """How busy the hub is: rows waiting, and the predicted wait."""

    backlog_rows: int
    predicted_wait_ms: float


class StateAnswer(msgspec.Struct, frozen=True):
    """Down: watermarks, load and revisions; `unchanged` when the etag still holds."""

    etag: str
    unchanged: bool = False
    watermarks: dict[str, Watermark] = {}
    load: HubLoad = HubLoad(0, 0.0)
    revisions: tuple[Revision, ...] = ()
