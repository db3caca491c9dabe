"""How a start is made: as always, or without what failed twice; the good copy is found whatever broke."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edge_agent.agent.alone import AlreadyRunning, DataLock
from edge_agent.agent.beginning import Beginning, SafeMode, begin
from edge_agent.agent.good_copy import find_good_copy
from edge_agent.agent.starts import Phase
from edge_agent.errors import ConfigurationError

GOOD = """[device]
name = "pump"
data_dir = "data"
[[stream]]
name = "flow"
topic = "plant/flow"
channels = {flow = {}}
"""
NEWER = GOOD.replace("plant/flow", "plant/other")
BAD = GOOD.replace("channels", "chanels")
GARBAGE = b"\x00\xff\xfe" * 100


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "etc" / "edge-agent.toml"
    path.parent.mkdir()
    path.write_text(GOOD)
    return path


def start(config: Path, *, phase: Phase, safe_mode: SafeMode = SafeMode.ALLOWED) -> Beginning:
    """A start that ends in this phase; its lock ends with it."""
    beginning = begin(config, safe_mode=safe_mode)
    beginning.log.mark(phase)
    if phase is Phase.WELL:
        beginning.keep_good()
    for lock in beginning.locks:
        lock.release()
    return beginning


def refused(config: Path) -> str:
    with pytest.raises(ConfigurationError) as told:
        begin(config)
    return str(told.value)


def test_a_wrong_configuration_at_the_first_installation_stays_an_error(config: Path):
    config.write_text(BAD)
    for _ in range(4):
        assert "chanels" in refused(config)


@pytest.mark.parametrize(
    "content",
    [b"", GARBAGE, BAD.encode(), GOOD[:40].encode(), GOOD[:60].encode(), b"[" * 100_000],
    ids=["empty", "garbage", "wrong", "cut", "cut later", "deep"],
)
def test_the_third_start_uses_the_configuration_that_ran_well(config: Path, content: bytes):
    start(config, phase=Phase.WELL)
    config.write_bytes(content)
    refused(config)
    refused(config)
    third = start(config, phase=Phase.WELL)
    assert third.plan.without == ("configuration",)
    assert third.settings.stream[0].topic == "plant/flow"
    assert third.settings.data_dir == config.parent / "data"
    again = start(config, phase=Phase.WELL)
    assert again.plan.without == ("configuration",), "until the file changes"
    config.write_text(NEWER)
    changed = start(config, phase=Phase.WELL)
    assert not changed.plan.careful
    assert changed.log.left is not None
    assert changed.settings.stream[0].topic == "plant/other"


def test_an_absent_file_is_no_different(config: Path):
    start(config, phase=Phase.WELL)
    config.unlink()
    refused(config)
    refused(config)
    assert start(config, phase=Phase.WELL).plan.without == ("configuration",)


def test_a_newer_valid_configuration_that_crashes_gives_way(config: Path):
    start(config, phase=Phase.WELL)
    config.write_text(NEWER)
    assert not start(config, phase=Phase.SERVING).plan.careful
    assert not start(config, phase=Phase.RUNNING).plan.careful
    third = start(config, phase=Phase.RUNNING)
    assert third.plan.without == ("configuration",)
    assert third.settings.stream[0].topic == "plant/flow"


def test_kills_of_the_configuration_that_ran_well_change_nothing(config: Path):
    start(config, phase=Phase.WELL)
    for _ in range(10):
        assert not start(config, phase=Phase.RUNNING).plan.careful


def test_the_operator_can_refuse_safe_mode(config: Path):
    start(config, phase=Phase.WELL)
    config.write_text(NEWER)
    for _ in range(2):
        start(config, phase=Phase.SERVING)
    forced = start(config, phase=Phase.SERVING, safe_mode=SafeMode.OFF)
    assert not forced.plan.careful
    assert forced.settings.stream[0].topic == "plant/other"
    assert not start(config, phase=Phase.SERVING).plan.careful, "counted afresh"


def test_a_good_copy_of_another_configuration_is_not_ours(config: Path, tmp_path: Path):
    start(config, phase=Phase.WELL)
    other = tmp_path / "other.toml"
    assert find_good_copy(config.parent / "data", config) is not None
    assert find_good_copy(config.parent / "data", other) is None


@pytest.mark.parametrize("name", ["edge-agent.toml", "about.json"])
def test_a_damaged_good_copy_is_none(config: Path, name: str):
    start(config, phase=Phase.WELL)
    (config.parent / "data" / "good" / name).write_bytes(GARBAGE)
    config.write_text(BAD)
    for _ in range(4):
        assert "chanels" in refused(config)


def test_the_copy_is_for_nobody_elses_eyes(config: Path):
    start(config, phase=Phase.WELL)
    copy = find_good_copy(config.parent / "data", config)
    assert copy is not None
    assert copy.path.stat().st_mode & 0o077 == 0


def test_systemds_state_folder_is_looked_into(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    start(config, phase=Phase.WELL)
    for note in config.parent.glob(".*.data_dir"):
        note.unlink()
    config.write_bytes(GARBAGE)
    refused(config)
    monkeypatch.setenv("STATE_DIRECTORY", f"{config.parent / 'data'}:{tmp_path}")
    refused(config)
    refused(config)
    assert begin(config).plan.without == ("configuration",)


def test_a_second_agent_is_told_who_holds_the_folder(tmp_path: Path):
    lock = DataLock.take(tmp_path)
    with pytest.raises(AlreadyRunning, match=rf"pid {os.getpid()}.*{tmp_path}"):
        DataLock.take(tmp_path)
    lock.release()
    DataLock.take(tmp_path).release()


def test_the_lock_ends_with_its_process(tmp_path: Path):
    code = (
        "import os, sys; from pathlib import Path; from edge_agent.agent.alone import DataLock; "
        "DataLock.take(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=30)
    assert (tmp_path / "agent.lock").read_text().strip().isdecimal()
    DataLock.take(tmp_path).release()


@pytest.mark.parametrize("content", [b"", GARBAGE, b"9" * 10_000])
def test_a_garbled_lock_file_is_no_obstacle(tmp_path: Path, content: bytes):
    (tmp_path / "agent.lock").write_bytes(content)
    DataLock.take(tmp_path).release()
