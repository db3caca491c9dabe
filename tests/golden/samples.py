"""Samples of every wire message; their frozen bytes lie in `messages/`.

The bytes are what devices and hubs in the field already send and have stored: they are never made
again, only added to. A new message, or one that got new fields (its sample is then named `Name.2`, every
field filled), gets its file from `python -m tests.golden.samples`, which writes files that are absent and
touches none that are there.
"""

from pathlib import Path

import msgspec
import numpy as np

from contract.encoding import encode
from contract.messages import (
    Clock,
    Escalation,
    Gap,
    HubLoad,
    InferAnswer,
    InferRequest,
    InstalledModel,
    LaneReport,
    RawRow,
    ReadingGroup,
    Revision,
    Rollup,
    Row,
    RowMessage,
    StateAnswer,
    StateReport,
    VerdictEvent,
    Watermark,
)
from contract.status import Lane, RowClass, Tier
from contract.tensors import pack_array

FOLDER = Path(__file__).parent / "messages"

CLOCK = Clock(boot="b00t", mono_s=12.5, wall_s=1796026502.25, trusted=True)
FEATURES = pack_array(np.array([[1.5, -2.0, 0.25]], dtype=np.float32))
GROUP = ReadingGroup(
    stream="pump/1",
    first=3,
    count=2,
    channels=("flow", "temp"),
    units=("l/s", "°C"),
    times=np.array([1796026502.0, 1796026503.0], dtype="<f8").tobytes(),
    arrivals=np.array([1796026502.5, 1796026503.5], dtype="<f8").tobytes(),
    values=np.array([[1.0, 20.5], [np.nan, 20.0]], dtype="<f8").tobytes(),
    flags=bytes([0, 4]),
)
GAP = Gap(lane=Lane.TEL, first=10, last=99, stride=2, readings=4608, reason="quota")
GAP_BODY = msgspec.msgpack.encode(
    {"lane": "tel", "first": 10, "last": 99, "stride": 2, "readings": 4608, "reason": "quota"}
)
"""The gap as the first version encoded it: a row's body is frozen with the row."""
REVISION = Revision(
    verdict="9f86d081884c7d659a2feaa0",
    stream="pump/1",
    label="normal",
    score=0.125,
    confidence=0.75,
    model="waterflow-anomaly",
    release=7,
    time_s=1796026502.0,
    seq=41,
)
LANE_REPORT = LaneReport(epoch="e1", next_seq=100, sent=90, first_kept=80)
WATERMARK = Watermark(epoch="e1", applied=88, missing=((89, 90), (95, 95)), pending=3)

SAMPLES: dict[str, msgspec.Struct] = {
    type(sample).__name__: sample
    for sample in (
        CLOCK,
        GROUP,
        RawRow(clock=CLOCK, groups=(GROUP,)),
        VerdictEvent(
            id="9f86d081884c7d659a2feaa0",
            stream="pump/1",
            time_s=1796026502.0,
            label="anomaly",
            score=4.5,
            confidence=0.875,
            tier=Tier.MODEL,
            model="waterflow-anomaly",
            release=7,
            stale_ms=0.0,
            reasons=("uncertain", "hub_timeout"),
            stages_ms={"decode": 0.25, "inference": 1.5},
            clock=CLOCK,
            window_from_s=1796022902.0,
        ),
        REVISION,
        GAP,
        Escalation(
            verdict="9f86d081884c7d659a2feaa0",
            stream="pump/1",
            model="waterflow-anomaly",
            release=7,
            feature_digest="ab" * 32,
            features=FEATURES,
            label="anomaly",
            confidence=0.625,
            time_s=1796026502.0,
        ),
        Rollup(
            stream="pump/1",
            from_s=1796026440.0,
            to_s=1796026500.0,
            verdicts=60,
            by_tier={"model": 59, "hub": 1},
            by_label={"normal": 58, "anomaly": 2},
            faults={"out_of_range": 3},
            score_max=4.5,
            latency_buckets={-3: 10, 7: 50},
        ),
        Row(seq=12, kind=RowClass.GAP, body=GAP_BODY),
        RowMessage(epoch="e1", lane=Lane.EVT, rows=(Row(12, RowClass.GAP, GAP_BODY),)),
        InferRequest(
            model="waterflow-anomaly",
            feature_digest="ab" * 32,
            features=FEATURES,
            stream="pump/1",
            release=7,
        ),
        InferAnswer(
            model="waterflow-anomaly",
            release=8,
            labels=("normal",),
            scores=(0.5,),
            confidences=(0.9375,),
            error="",
        ),
        LANE_REPORT,
        InstalledModel(family="waterflow-anomaly", release=7, variant="device-int8"),
        StateReport(
            agent="0.1.0",
            clock=CLOCK,
            lanes={"tel": LANE_REPORT},
            models=(InstalledModel("waterflow-anomaly", 7, "device-int8"),),
            streams=3,
            readings=1000,
            verdicts=900,
            revised_to=41,
            etag="x1",
        ),
        WATERMARK,
        HubLoad(backlog_rows=5, predicted_wait_ms=1.5),
        StateAnswer(
            etag="x2",
            unchanged=False,
            watermarks={"tel": WATERMARK},
            load=HubLoad(5, 1.5),
            revisions=(REVISION,),
        ),
    )
}

LATER = (
    msgspec.structs.replace(
        GROUP, flags=bytes([9, 4]), own=np.array([4070908800.0, np.nan], dtype="<f8").tobytes()
    ),
    msgspec.structs.replace(REVISION, clock=CLOCK),
    msgspec.structs.replace(GAP, epoch="e0", exact=False, reason="lost"),
    msgspec.structs.replace(SAMPLES["Rollup"], clock=CLOCK),
    msgspec.structs.replace(SAMPLES["StateReport"], degraded=("safe mode",)),
)
"""Messages that got fields after their first bytes were frozen."""
SAMPLES |= {f"{type(sample).__name__}.2": sample for sample in LATER}


def kind_of(name: str) -> str:
    """The message that a sample is one of."""
    return name.partition(".")[0]


def sample_file(name: str) -> Path:
    """Where the frozen bytes of a message lie."""
    return FOLDER / f"{name}.msgpack"


if __name__ == "__main__":
    for name, sample in SAMPLES.items():
        if not sample_file(name).exists():
            sample_file(name).write_bytes(encode(sample))
            print(f"wrote {sample_file(name).name}")
