"""rehearse: the scratch installation, its configuration as a file, the shifted clock, the sheet, the catalogue."""

import asyncio
import json
import tomllib

import pytest

from edge_agent.clock import SystemClock
from edge_agent.errors import ConfigurationError
from edge_agent.outbox.store import Outbox
from edge_agent.rehearse.catalogue import DRILLS, choose
from edge_agent.rehearse.judging import DrillResult
from edge_agent.rehearse.rehearsal import Sheet
from edge_agent.rehearse.scratch import Copy, copy_outbox, sample_settings, scratch_tables
from edge_agent.rehearse.sheet import as_json, as_text
from edge_agent.rehearse.shifted_clock import ShiftedClock, set_shift
from edge_agent.rehearse.toml_text import toml_of
from edge_agent.settings import OutboxSettings, Settings

CLOCK = SystemClock()


def _tables(settings: Settings, tmp_path, **changes):
    given = {"data_dir": tmp_path / "data", "broker_port": 1, "hub_port": 2, "mqtt5": False}
    return scratch_tables(settings, **given | changes)


def test_the_ends_are_replaced_and_the_rest_is_kept(tmp_path):
    settings = Settings(
        device={"name": "dev", "data_dir": "/real/data", "log_level": "error"},
        broker=[
            {"url": "mqtts://real:8883", "password": "hush", "qos": 0, "protocol": "5"},
            {"url": "mqtt://other:1883"},
        ],
        hub={"url": "tls://real:4222", "token": "hush", "state_interval_s": 60},
        stream=[{"name": "s", "topic": "t", "channels": {"x.y": {"unit": "°C", "min": 1}}}],
        outbox={"max_bytes": 2**24},
        routing={"escalate_below": 0.5},
    )
    tables, notes = _tables(settings, tmp_path)
    text = toml_of(tables)
    assert "real" not in text
    assert "hush" not in text
    again = Settings(**tomllib.loads(text))
    assert again.data_dir == tmp_path / "data"
    assert [each.url for each in again.brokers] == ["mqtt://127.0.0.1:1"]
    assert again.hub.urls == ("nats://127.0.0.1:2",)
    assert again.hub.state_interval_s == 60
    assert again.hub.drain_jitter_s < 1
    assert (again.stream, again.outbox, again.routing) == (
        settings.stream,
        settings.outbox,
        settings.routing,
    )
    told = " ".join(notes)
    assert "2 brokers" in told
    assert "QoS 0" in told
    assert "3.1.1" in told
    assert "hub.drain_jitter_s" in told


def test_shorter_waits_than_the_drill_s_own_are_kept(tmp_path):
    settings = Settings(
        device={"name": "dev"},
        hub={"url": "nats://x:1", "reconnect_jitter_s": 0.1},
        stream=[{"name": "s", "topic": "t", "channels": {"x": {}}}],
    )
    tables, _ = _tables(settings, tmp_path)
    assert tables["hub"]["reconnect_jitter_s"] == 0.1


def test_the_sample_is_a_configuration(tmp_path):
    assert len(sample_settings(tmp_path).stream) == 2


def test_any_text_survives_as_toml():
    odd = 'a"b\\c\n\t\x7f\x01°😀'
    tables = {
        "t": {"k": odd, odd: [1, 2.5, True, {"x": odd}], "none": None},
        "l": [{"a": 1}, {"a": 2}],
    }
    assert tomllib.loads(toml_of(tables)) == {
        "t": {"k": odd, odd: [1, 2.5, True, {"x": odd}]},
        "l": [{"a": 1}, {"a": 2}],
    }


async def test_an_outbox_is_copied_from_under_the_agent_that_writes_it(tmp_path):
    source, target = tmp_path / "real", tmp_path / "copy"
    outbox = await Outbox.open(source, settings=OutboxSettings(), clock=CLOCK)
    try:
        await outbox.recover()
        copy = await asyncio.to_thread(copy_outbox, source, target)
        epoch = outbox.state().epoch
    finally:
        await outbox.close()
    assert copy.files > 0
    assert copy.why == ""
    twin = await Outbox.open(target, settings=OutboxSettings(), clock=CLOCK)
    assert twin.state().epoch == epoch
    await twin.close()


def test_where_there_is_no_outbox_there_is_no_copy(tmp_path):
    assert copy_outbox(tmp_path / "none", tmp_path / "copy").why == "there is no outbox yet"
    assert not (tmp_path / "copy").exists()


def test_a_clock_is_shifted_while_it_runs_and_then_not_trusted(tmp_path):
    set_shift(tmp_path / "shift", 0.0)
    clock = ShiftedClock(tmp_path / "shift")
    assert abs(clock.wall_s() - CLOCK.wall_s()) < 5
    before_ns = clock.mono_ns()
    set_shift(tmp_path / "shift", -86_400.0)
    assert abs(clock.wall_s() + 86_400 - CLOCK.wall_s()) < 5
    assert not clock.trusted()
    assert not clock.stamp().trusted
    assert clock.stamp().wall_s < CLOCK.wall_s() - 80_000
    assert clock.mono_ns() >= before_ns


def test_drills_are_chosen_by_name_in_the_order_given():
    assert [drill.name for drill in choose("poison_row, link_cut,link_cut")] == [
        "poison_row",
        "link_cut",
    ]
    assert len(choose(None)) == len(DRILLS) == 9
    with pytest.raises(ConfigurationError, match=r"'flood'.*link_cut"):
        choose("flood,link_cut")


def _sheet(*drills: DrillResult, **more) -> Sheet:
    servers = {"broker": "stand-in", "server": "stand-in", "hub": "stand-in"}
    return Sheet(
        "dev", servers, ["a note"], Copy(why="there is no outbox yet"), drills=list(drills), **more
    )


def test_the_sheet_says_what_failed_and_why():
    good = DrillResult("link_cut", 2000, 0, 0, 1.25, figures={"deadline_misses": 0})
    bad = DrillResult("kill_drain", 1990, 3, 1, None, ("3 readings are gone",), {"kills": 4})
    sheet = _sheet(good, bad)
    text = as_text(sheet)
    assert "FAILED: 1 of 2 drills" in text
    assert "kill_drain: 3 readings are gone" in text
    assert "a note" in text
    assert "4 kills" in text
    document = json.loads(json.dumps(as_json(sheet)))
    assert document["ok"] is False
    assert [drill["pass"] for drill in document["drills"]] == [True, False]
    assert document["drills"][1]["lost"] == 3
    assert document["drills"][0]["recovery_s"] == 1.25
    assert document["servers"]["hub"] == "stand-in"


def test_a_backlog_that_is_lost_fails_the_sheet():
    good = DrillResult("link_cut", 2000, 0, 0, 1.25)
    assert _sheet(good).ok
    assert not _sheet(good, backlog={"readings": 10, "stored": 9, "lost": 1}).ok
