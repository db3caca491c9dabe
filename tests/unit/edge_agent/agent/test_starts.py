"""The record of starts: failures in a row are counted, good starts end the row, garbage means nothing."""

from pathlib import Path

import pytest

from edge_agent.agent.starts import CRASH_FILE, FILE, MOST_FAILURES, Phase, Replaced, StartLog


def test_starts_that_end_without_a_word_are_failures_in_a_row(tmp_path: Path):
    for count in range(4):
        log = StartLog.begin(tmp_path, configuration="c1")
        assert len(log.record.failures) == count
        log.mark(Phase.MODEL, "models/a")
    failures = StartLog.begin(tmp_path, configuration="c1").record.failures
    assert {(each.phase, each.subject) for each in failures} == {(Phase.MODEL, "models/a")}
    assert "killed" in failures[-1].why


@pytest.mark.parametrize("phase", [Phase.WELL, Phase.STOPPED])
def test_a_start_that_ran_well_or_was_asked_to_end_ends_the_row(tmp_path: Path, phase: Phase):
    StartLog.begin(tmp_path, configuration="c1").mark(Phase.RUNNING)
    StartLog.begin(tmp_path, configuration="c1").mark(phase)
    assert StartLog.begin(tmp_path, configuration="c1").record.failures == ()


def test_an_error_is_remembered_with_its_own_words_and_phase(tmp_path: Path):
    log = StartLog.begin(tmp_path, configuration="c1")
    log.mark(Phase.RUNNING)
    log.failed("StoreError: no", phase=Phase.OUTBOX)
    (failure,) = StartLog.begin(tmp_path, configuration="c1").record.failures
    assert (failure.phase, failure.why) == (Phase.OUTBOX, "StoreError: no")


def test_another_configuration_begins_anew_and_tells_what_safe_mode_did(tmp_path: Path):
    log = StartLog.begin(tmp_path, configuration="c1")
    log.replace(Replaced(good_configuration=True, reasons=("why",)))
    log.mark(Phase.WELL)
    assert StartLog.begin(tmp_path, configuration="c1").record.replaced == log.record.replaced
    changed = StartLog.begin(tmp_path, configuration="c2")
    assert changed.record.failures == ()
    assert changed.record.replaced is None
    assert changed.left is not None
    assert changed.left.reasons == ("why",)


def test_the_row_of_failures_has_a_bound(tmp_path: Path):
    for _ in range(MOST_FAILURES + 5):
        StartLog.begin(tmp_path, configuration="c1")
    log = StartLog.begin(tmp_path, configuration="c1")
    assert len(log.record.failures) == MOST_FAILURES


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b"[" * 100_000, b'{"phase": 1}']
)
def test_garbage_means_that_nothing_is_known(tmp_path: Path, content: bytes):
    (tmp_path / FILE).write_bytes(content)
    (tmp_path / CRASH_FILE).write_bytes(content)
    log = StartLog.begin(tmp_path, configuration="c1")
    assert log.record.failures == ()


def test_a_folder_that_cannot_be_written_raises_nothing(tmp_path: Path):
    below_a_file = tmp_path / "file"
    below_a_file.write_text("")
    log = StartLog.begin(below_a_file / "data", configuration="c1")
    log.mark(Phase.WELL)


@pytest.mark.parametrize(
    ("stack", "phase"),
    [
        ('  File "/opt/edge_agent/inference/onnx.py", line 9 in run', Phase.MODEL),
        ('  File "/opt/edge_agent/outbox/database.py", line 9 in run', Phase.OUTBOX),
        ('  File "/opt/edge_agent/broker/client.py", line 9 in read', Phase.RUNNING),
    ],
)
def test_the_stack_of_a_crash_says_whose_it_was(tmp_path: Path, stack: str, phase: Phase):
    log = StartLog.begin(tmp_path, configuration="c1")
    log.mark(Phase.RUNNING)
    (tmp_path / CRASH_FILE).write_text(f"Fatal Python error: Segmentation fault\n\n{stack}\n")
    (failure,) = StartLog.begin(tmp_path, configuration="c1").record.failures
    assert failure.phase is phase
    assert "Segmentation fault" in failure.why
