"""What systemd set is read once; what makes no sense counts as absent."""

import os
from pathlib import Path

import pytest

from edge_agent.settings import data_dir_hints, note_path, read_service_environment

NAMES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "STATE_DIRECTORY")


@pytest.fixture(autouse=True)
def _no_service_manager(monkeypatch: pytest.MonkeyPatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("micros", "process", "limit_s"),
    [
        ("30000000", "", 30.0),
        ("30000000", "own", 30.0),
        ("30000000", "1", 0.0),
        ("", "", 0.0),
        ("soon", "", 0.0),
        ("-5", "", 0.0),
        ("9" * 5000, "", 0.0),
    ],
)
def test_the_watchdogs_limit(monkeypatch, micros: str, process: str, limit_s: float):
    monkeypatch.setenv("WATCHDOG_USEC", micros)
    # Not among the parameters: the workers of a parallel run would collect different names.
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if process == "own" else process)
    assert read_service_environment().watchdog_s == limit_s


def test_the_first_state_folder_counts(monkeypatch):
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/skerry:/var/lib/other")
    assert read_service_environment().state_folder == Path("/var/lib/skerry")


def test_without_a_service_manager_all_is_absent():
    found = read_service_environment()
    assert (found.notify_socket, found.watchdog_s, found.state_folder) == (None, 0.0, None)


@pytest.mark.parametrize(
    ("content", "first"),
    [
        (b'[device]\ndata_dir = "here"\n', "here"),
        (b'[device]\nname = "a"\ndata_dir = "here"\n[[stre', "here"),
        (b'data_dir = "above"\n[device\n', "above"),
        (b"[device]\ndata_dir = 5\n", None),
        (b"\xff\x00" * 50, None),
        (b"[" * 100_000, None),
    ],
)
def test_what_is_left_of_the_file_tells_the_data_folder(tmp_path: Path, content, first):
    config = tmp_path / "edge-agent.toml"
    config.write_bytes(content)
    expected = Path("/var/lib/skerry") if first is None else tmp_path / first
    assert data_dir_hints(config)[0] == expected


def test_the_environment_is_believed_first_and_the_note_before_the_default(
    tmp_path: Path, monkeypatch
):
    config = tmp_path / "edge-agent.toml"
    note_path(config).write_text(f"{tmp_path}/noted\n")
    assert data_dir_hints(config)[0] == tmp_path / "noted"
    monkeypatch.setenv("EDGE_AGENT_DEVICE__DATA_DIR", "/said")
    assert data_dir_hints(config)[0] == Path("/said")
    note_path(config).write_bytes(b"\0\xff\n")
    assert data_dir_hints(config)[-1] == Path("/var/lib/skerry")
