"""The drills of backlog, network and clock: what can be checked without running one."""

import asyncio
import json
import random
import time
from collections import Counter

import numpy as np
import pytest

from bench.faults.backlog.draining import dense_rows, sparse_rows
from bench.faults.backlog.fill import backlog_rows, fill
from bench.faults.backlog.judging import balance_of
from bench.faults.backlog.live import Latencies
from bench.faults.backlog.others import Moment, moment, share_left
from bench.faults.backlog.sped import Pace, start_pace
from bench.faults.clock.faked import FakedClock
from bench.faults.drill import DrillContext, DrillResult
from bench.faults.network.offload import DEADLINE_MS, Answers, offloaded_streams, write_recording
from bench.faults.network.rules import Fate, Side, _rule
from contract.encoding import decode
from contract.messages import RawRow
from edge_agent.clock import SystemClock
from edge_agent.outbox.store import Outbox
from edge_agent.settings import OutboxSettings
from edge_agent.sources.recording import read_recordings


def test_both_shapes_hold_as_many_readings_as_they_say(tmp_path):
    context = DrillContext(tmp_path, random.Random(1))
    assert sum(dense_rows(1000)) == sum(sparse_rows(1000, context)) == 1000
    assert max(dense_rows(1000)) == 256
    assert max(sparse_rows(1000, context)) <= 16


def test_rows_of_a_backlog_hold_each_reading_once_with_its_stream():
    times = np.arange(40.0)
    found: dict[str, list[float]] = {}
    for row in backlog_rows([16, 1, 23], times):
        for group in decode(row.body, RawRow).groups:
            found.setdefault(group.stream, []).extend(np.frombuffer(group.times, "<f8").tolist())
    assert found == {f"sim/{at}": times[at::4].tolist() for at in range(4)}


async def test_a_filled_outbox_holds_what_was_asked_for(tmp_path):
    filled = await fill(tmp_path / "outbox", sizes=[256] * 8, max_bytes=8 * 1024 * 1024)
    clock = await asyncio.to_thread(SystemClock)
    outbox = await Outbox.open(tmp_path / "outbox", settings=OutboxSettings(), clock=clock)
    try:
        held = sum(lane.readings for lane in outbox.state().lanes.values())
    finally:
        await outbox.close()
    assert held == filled.readings == sum(map(len, filled.ledger().values())) == 2048


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([1.0, 2.0, 3.0], (0, 0, 0, 0)),
        ([1.0, 3.0], (1, 0, 0, 0)),
        ([1.0, 2.0, 2.0, 3.0], (0, 1, 0, 0)),
        ([1.0, 2.0, 3.0, 4.0], (0, 0, 1, 0)),
        ([1.0, 3.0, 2.0], (0, 0, 0, 1)),
        ([], (3, 0, 0, 0)),
    ],
)
def test_millions_are_judged_as_the_ledgers_are(stored, expected):
    found = balance_of({"s": np.array([1.0, 2.0, 3.0])}, {"s": np.array(stored)}, declared=0)
    assert (found.missing, found.duplicate, found.phantom, found.order_errors) == expected


def test_a_stream_that_nobody_sent_is_foreign():
    assert balance_of({}, {"s": np.array([1.0])}, declared=0).phantom == 1


def test_latencies_tell_verdicts_and_echoes_apart():
    shown = Latencies([1.0, 30.0], [0.1, 0.2]).figures("drain")
    assert (shown["drain_verdict_p99_ms"], shown["drain_echo_p99_ms"]) == (30.0, 0.2)


def test_a_pace_makes_days_of_seconds(tmp_path):
    pace = start_pace(86_400.0, wall_s=1000.0, path=tmp_path / "pace.json")
    assert Pace(86_400.0, 1000.0, time.monotonic() - 2.0).passed_s() >= 2 * 86_400.0
    assert pace.now_s() >= 1000.0
    assert json.loads((tmp_path / "pace.json").read_text())["speed"] == 86_400.0


def test_a_faked_clock_is_vouched_for_only_when_it_is_right(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    clock = FakedClock(tmp_path)
    clock.correct()
    assert (tmp_path / "clock.synchronised").exists()
    clock.set(-86_400.0)
    assert (tmp_path / "clock.offset").read_text() == "-86400"
    assert not (tmp_path / "clock.synchronised").exists()


def test_a_recording_holds_whole_windows_of_all_streams(tmp_path):
    path = tmp_path / "motion.ndjson"
    write_recording(path, windows=6, streams=3)
    topics = [message.topic for message in read_recordings([path])]
    assert [topics.count(f"motion/{stream}") for stream in range(3)] == [200, 200, 200]
    assert f"deadline_ms = {DEADLINE_MS:g}" in offloaded_streams()


@pytest.mark.parametrize(("late", "passes"), [(1, True), (2, False)])
def test_one_answer_of_a_thousand_may_be_late(late, passes):
    heard = Answers.__new__(Answers)
    heard.totals_ms = [10.0] * (1000 - late) + [1000.0] * late
    heard.tiers = Counter()
    result = DrillResult()
    heard.judge(result)
    assert (not result.faults) is passes


def test_a_rule_names_its_port_its_side_and_its_maker():
    rule = " ".join(_rule(4222, Side.TO, fate=Fate.RESET, share=0.3))
    assert rule.startswith("INPUT -i lo -p tcp --dport 4222 -m comment --comment skerry-drill-")
    assert rule.endswith("--probability 0.3 -j REJECT --reject-with tcp-reset")
    assert "statistic" not in " ".join(_rule(4222, Side.FROM, fate=Fate.DROP, share=1.0))


def test_what_others_use_of_the_machine_is_what_the_drill_does_not():
    earlier, later = Moment(0.0, 100.0, 10.0), Moment(10.0, 118.0, 20.0)
    assert later.others_since(earlier) == pytest.approx(0.8)
    assert earlier.others_since(later) == 0.0
    assert 0.1 <= share_left(1000.0) < share_left(0.0) == 1.0


def test_processor_seconds_only_grow():
    first = moment()
    sum(range(2_000_000))
    assert moment().ours_s >= first.ours_s > 0
