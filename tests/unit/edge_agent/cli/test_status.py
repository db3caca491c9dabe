"""The running agent at a glance: what is wrong comes first, and what is printed can be copied."""

from pathlib import Path
from typing import Any

from edge_agent.cli.status import lines

STATUS: dict[str, Any] = {
    "device": "pump",
    "version": "1",
    "uptime_s": 5.0,
    "degraded": ["safe mode: the model package m was left out", "broker mqtt://b: refused"],
    "messages": 1,
    "readings": 1,
    "streams": 2,
    "repeated": 0,
    "verdicts": {},
    "deadline_misses": 0,
    "hub": {"configured": False, "health": "offline", "why": ""},
    "outbox": {"bytes": 0, "quota_bytes": 1e6, "fault": "", "lanes": {}, "shed": {}},
    "brokers": [],
    "models": [],
    "stages_ms": {},
    "faults": {},
    "quarantine": {},
    "silent": {
        "tables": ["never"],
        "streams": [
            {"stream": "quiet", "age_s": None},
            {"stream": "old", "age_s": 200_000.0},
            {"stream": "new", "age_s": 1.2},
        ],
    },
    "recent": ["4c18ea"],
}


def test_what_is_wrong_comes_first():
    shown = lines(STATUS)
    assert shown[1] == "DEGRADED   safe mode: the model package m was left out"
    assert shown[2] == "DEGRADED   broker mqtt://b: refused"


def test_silent_streams_are_named_with_their_age():
    shown = [line for line in lines(STATUS) if line.startswith("stream ")]
    assert shown == [
        "stream     never  no message ever matched",
        "stream     quiet  silent since the start",
        "stream     old  last reading 2 d ago",
        "stream     new  last reading 1 s ago",
    ]


def test_the_command_to_copy_names_the_configuration_that_was_given():
    assert lines(STATUS)[-1] == "explain    edge-agent explain 4c18ea"
    given = lines(STATUS, config=Path("my own.toml"))
    assert given[-1] == "explain    edge-agent explain 4c18ea --config 'my own.toml'"
