"""Rows and messages as a device makes them, for the hub's tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cloud_hub.types import Delivery
from contract import subjects
from contract.encoding import compress, encode
from contract.messages import (
    SCHEMA_VERSION,
    Clock,
    Escalation,
    Gap,
    RawRow,
    ReadingGroup,
    Revision,
    Rollup,
    Row,
    RowMessage,
    VerdictEvent,
)
from contract.status import Lane, RowClass, Tier
from contract.tensors import pack_array

CLOCK = Clock("boot-1", 12.5, 1_700_000_000.0, trusted=True)
EPOCH = "e1"


def raw_group(
    times: Sequence[float], *, stream: str = "pump", first: int = 0, channels: int = 2
) -> ReadingGroup:
    n = len(times)
    values = np.arange(n * channels, dtype="<f8").reshape(n, channels)
    return ReadingGroup(
        stream=stream,
        first=first,
        count=n,
        channels=tuple("abcdefgh"[:channels]),
        units=("m",) * channels,
        times=np.asarray(times, dtype="<f8").tobytes(),
        arrivals=np.asarray(times, dtype="<f8").tobytes(),
        values=values.tobytes(),
        flags=bytes(n),
    )


def raw_row(seq: int, times: Sequence[float] | None = None, *, stream: str = "pump") -> Row:
    """One raw row; by default of four readings at 10·seq, 10·seq + 1 …"""
    given = [10.0 * seq + i for i in range(4)] if times is None else times
    return Row(seq, RowClass.RAW, encode(RawRow(CLOCK, (raw_group(given, stream=stream),))))


def verdict(identity: str = "v1", *, time_s: float = 100.0, label: str = "low") -> VerdictEvent:
    return VerdictEvent(
        id=identity,
        stream="pump",
        time_s=time_s,
        label=label,
        score=0.5,
        confidence=0.6,
        tier=Tier.MODEL,
        model="tiny-class",
        release=3,
        stale_ms=0.0,
        reasons=("uncertain",),
        stages_ms={},
        clock=CLOCK,
    )


def verdict_row(seq: int, identity: str = "v1") -> Row:
    return Row(seq, RowClass.VERDICT, encode(verdict(identity)))


def gap_row(seq: int, gap: Gap) -> Row:
    return Row(seq, RowClass.GAP, encode(gap))


def revision_row(seq: int, identity: str = "v1") -> Row:
    revision = Revision(identity, "pump", "high", 0.9, 0.9, "tiny-class", 3, 100.0)
    return Row(seq, RowClass.REVISION, encode(revision))


def rollup_row(seq: int) -> Row:
    rollup = Rollup(
        stream="pump",
        from_s=0.0,
        to_s=60.0,
        verdicts=10,
        by_tier={"model": 10},
        by_label={"low": 10},
        faults={},
        score_max=0.5,
        latency_buckets={3: 10},
    )
    return Row(seq, RowClass.ROLLUP, encode(rollup))


def escalation(identity: str, *, digest: str, model: str = "tiny-class") -> Escalation:
    features = np.array([[0.1, 0.2, 0.3, 0.4]], dtype=np.float32)
    return Escalation(
        verdict=identity,
        stream="pump",
        model=model,
        release=3,
        feature_digest=digest,
        features=pack_array(features),
        label="low",
        confidence=0.4,
        time_s=100.0,
    )


def escalation_row(seq: int, identity: str, *, digest: str, model: str = "tiny-class") -> Row:
    return Row(seq, RowClass.ESCALATION, encode(escalation(identity, digest=digest, model=model)))


async def _nothing() -> None:
    return


def wire_message(
    rows: Sequence[Row],
    lane: Lane,
    *,
    device: str = "d1",
    epoch: str = EPOCH,
    model: str = "tiny-class",
) -> tuple[str, bytes, dict[str, str]]:
    """Subject, body and headers of the message that carries these rows."""
    body, encoding = compress(encode(RowMessage(epoch, lane, tuple(rows))))
    headers = {
        subjects.MSG_ID: subjects.message_id(device, epoch, lane, rows[0].seq, rows[-1].seq),
        subjects.SCHEMA: str(SCHEMA_VERSION),
        subjects.ENCODING: encoding,
    }
    return subjects.lane_subject(device, lane, model), body, headers


def delivery(
    rows: Sequence[Row],
    lane: Lane,
    *,
    device: str = "d1",
    epoch: str = EPOCH,
    model: str = "tiny-class",
) -> Delivery:
    subject, body, headers = wire_message(rows, lane, device=device, epoch=epoch, model=model)
    return Delivery(subject, headers, body, _nothing)
