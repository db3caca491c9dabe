"""A wrong configuration file: every command names the key, where it is, and what would be valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.stack import run

WRONG = """[device]
name = "pump station"
data_dir = "{home}"
[broker]
url = "localhost:1883"
[routing]
escalate_bellow = 0.9
[[stream]]
name = "flow"
topic = "plant/flow"
time = "sometimes"
channels = {{flow = {{min = 5, max = 1}}}}
deadline_ms = "soon"
"""
RIGHT = """[device]
name = "pump"
data_dir = "{home}"
[[stream]]
name = "flow"
topic = "plant/flow"
channels = {{flow = {{}}}}
"""
SENTENCES = {
    2: ("name", "must match"),
    5: ("url", "mqtts?://"),
    7: ("escalate_bellow", "did you mean 'escalate_below'?"),
    11: ("time", "'checked', 'recorded' or 'arrival'"),
    12: ("flow", "min (5) must be below max (1)"),
    13: ("deadline_ms", "number"),
}
"""By line of the file: the key, and words that say what is valid."""
COMMANDS = {
    "run": (),
    "check": (),
    "check offline": ("--offline", "--json"),
    "replay": ("--input", "nothing.ndjson"),
    "status": ("--json",),
    "explain": ("last",),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.timeout(30)
async def test_a_wrong_configuration_names_key_place_and_valid_values(
    tmp_path: Path, name: str
) -> None:
    config = tmp_path / "edge-agent.toml"
    config.write_text(WRONG.format(home=tmp_path), encoding="utf-8")
    ended = await run("edge-agent", name.split(maxsplit=1)[0], "--config", config, *COMMANDS[name])
    assert ended.code == 2
    assert ended.out == ""
    assert "Traceback" not in ended.err
    lines = ended.err.splitlines()
    assert len(lines) == len(SENTENCES), ended.err
    for number, (key, valid) in SENTENCES.items():
        (line,) = [each for each in lines if each.startswith(f"{config}, line {number}: ")]
        assert key in line
        assert valid in line, line


@pytest.mark.parametrize("name", ["status", "explain"])
@pytest.mark.timeout(30)
async def test_without_a_running_agent_the_live_commands_say_how_to_start_one(
    tmp_path: Path, name: str
) -> None:
    config = tmp_path / "edge-agent.toml"
    config.write_text(RIGHT.format(home=tmp_path), encoding="utf-8")
    ended = await run("edge-agent", name, "--config", config, *COMMANDS[name])
    assert ended.code == 1
    assert "the agent is not running" in ended.err
    assert "edge-agent run --config" in ended.err


@pytest.mark.timeout(30)
async def test_a_file_that_is_not_there_or_no_toml_says_so(tmp_path: Path) -> None:
    ended = await run("edge-agent", "run", "--config", tmp_path / "absent.toml")
    assert ended.code == 2
    assert "absent.toml" in ended.err
    assert "--config" in ended.err
    broken = tmp_path / "broken.toml"
    broken.write_text("[device\nname = 1", encoding="utf-8")
    ended = await run("edge-agent", "run", "--config", broken)
    assert ended.code == 2
    assert "line 1" in ended.err
