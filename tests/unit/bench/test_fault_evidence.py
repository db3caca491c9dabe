"""The ledgers are read as the hub and the sensors write them."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import create_engine

from bench.faults.aggregates import differences
from bench.faults.evidence import count_acknowledged, judge, read_ledger
from bench.stack import Hub
from cloud_hub.store.tables import events, gaps, metadata, telemetry

EPOCH = "e1"


class Stored(Hub):
    """A hub of which there is the database only."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.answer: Any = None
        engine = create_engine(f"sqlite:///{database}")
        metadata.create_all(engine)
        engine.dispose()

    def add(self, table: str, **values: object) -> None:
        key = {"device": "d", "epoch": EPOCH}
        names = {**key, **values}
        places = ", ".join("?" for _ in names)
        columns = ", ".join(f'"{name}"' for name in names)
        statement = f"INSERT INTO {table} ({columns}) VALUES ({places})"
        with closing(sqlite3.connect(self.database)) as connection:
            connection.execute(statement, tuple(names.values()))
            connection.commit()

    def add_readings(
        self,
        seq: int,
        *times: float,
        stream: str = "sim/0",
        channels: str = "[]",
        values: bytes = b"",
    ) -> None:
        blob = np.array(times, "<f8").tobytes()
        self.add(
            telemetry.name, lane="tel", seq=seq, first=0, stream=stream, count=len(times),
            t_min=times[0], t_max=times[-1], channels=channels, units="[]", times=blob, arrivals=blob,
            values=values, flags=b"", boot="b", mono_s=0.0, wall_s=0.0, clock_trusted=True,
        )  # fmt: skip

    async def ask(self, *args: object) -> Any:
        return self.answer


@pytest.fixture
def hub(tmp_path: Path) -> Stored:
    return Stored(tmp_path / "hub.db")


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    path = tmp_path / "sent.jsonl"
    lines = [json.dumps({"t": float(t), "topic": "sim/0"}) for t in range(1, 7)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_what_the_hub_stored_and_declared_is_compared_with_what_sensors_were_acknowledged(
    hub: Stored, sent: Path
):
    hub.add_readings(1, 1.0, 2.0)
    hub.add(
        gaps.name, lane="evt", seq=1, gap_lane="tel", first=2, last=2, stride=1, readings=2,
        reason="shed",
    )  # fmt: skip
    hub.add_readings(3, 5.0, 6.0)
    assert judge(hub, [sent]).faults() == []
    hub.add_readings(4, 6.0, 9.0)
    found = judge(hub, [sent])
    assert (found.duplicate, found.phantom, found.declared) == (1, 1, 2)


def test_a_gap_of_another_lane_declares_no_reading(hub: Stored, sent: Path):
    hub.add(
        gaps.name, lane="evt", seq=1, gap_lane="bulk", first=2, last=2, stride=1, readings=6,
        reason="shed",
    )  # fmt: skip
    assert judge(hub, [sent]).lost == 6


def test_events_are_judged_for_order(hub: Stored, sent: Path):
    hub.add_readings(1, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    for seq, moment in ((1, 10.0), (2, 9.0)):
        hub.add(
            events.name, lane="evt", seq=seq, kind="alarm", stream="sim/0", time_s=moment,
            id=str(seq), payload="{}", received_s=0.0,
        )  # fmt: skip
    assert judge(hub, [sent]).order_errors == 1


def test_a_hole_among_the_events_is_found(hub: Stored, sent: Path):
    hub.add_readings(1, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    for seq in (1, 3):
        hub.add(
            events.name, lane="evt", seq=seq, kind="alarm", stream="sim/0", time_s=float(seq),
            id=str(seq), payload="{}", received_s=0.0,
        )  # fmt: skip
    assert judge(hub, [sent]).holes == 1
    hub.add(
        gaps.name, lane="evt", seq=4, gap_lane="evt", first=2, last=2, stride=1, readings=0,
        reason="shed",
    )  # fmt: skip
    assert judge(hub, [sent]).faults() == []


def test_a_gap_of_an_earlier_epoch_is_told_by_the_one_that_follows(hub: Stored, sent: Path):
    hub.add_readings(1, 1.0, 2.0, 3.0, 4.0)
    hub.add(
        gaps.name, lane="evt", seq=1, epoch="e2", gap_epoch=EPOCH, gap_lane="tel", first=2, last=2,
        stride=1, readings=2, reason="lost",
    )  # fmt: skip
    assert judge(hub, [sent]).faults() == []


def test_other_streams_can_be_left_out_and_still_account_for_their_rows(hub: Stored, sent: Path):
    hub.add_readings(1, 7.0, stream="probe/1")
    hub.add_readings(2, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert judge(hub, [sent]).phantom == 1
    assert judge(hub, [sent], streams="sim/").faults() == []


def test_a_hub_that_has_stored_nothing_yet_has_lost_everything(tmp_path: Path, sent: Path):
    hub = Stored(tmp_path / "other.db")
    hub.database.unlink()
    assert judge(hub, [sent]).lost == 6


def test_a_ledger_that_was_not_begun_is_empty(tmp_path: Path, sent: Path):
    assert read_ledger(tmp_path / "none") == []
    assert count_acknowledged([sent, tmp_path / "none"]) == 6


def told(**changes: object) -> dict[str, object]:
    channel = {"channel": "a", "count": 4, "minimum": 1.0, "maximum": 4.0, "mean": 2.5}
    channel |= {name: value for name, value in changes.items() if name in channel}
    stream = {"stream": "sim/0", "readings": changes.get("readings", 4), "channels": [channel]}
    return {"stored": changes.get("stored", 4), "streams": [stream]}


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({}, 0),
        ({"stored": 6}, 1),
        ({"readings": 5}, 1),
        ({"count": 5}, 1),
        ({"minimum": 0.0, "maximum": 5.0, "mean": 2.4}, 3),
    ],
)
def test_an_aggregate_that_a_recomputation_does_not_confirm_is_found(
    hub: Stored, changes: dict[str, object], faults: int
):
    for seq, times in ((1, (1.0, 2.0)), (2, (3.0, 4.0)), (3, (3.0, 4.0))):
        hub.add_readings(seq, *times, channels='["a"]', values=np.array(times, "<f8").tobytes())
    hub.answer = told(**changes)
    assert len(asyncio.run(differences(hub, device="d"))) == faults
