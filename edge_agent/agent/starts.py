"""What became of the last starts: a tiny file in the data folder, written as well as the disk allows.

It is not worth an fsync, and a file that is gone or unreadable means that nothing is known. Nothing
else depends on it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

FILE: Final = "starts.json"
CRASH_FILE: Final = "crash.txt"
MOST_FAILURES: Final = 8
_MOST_BYTES: Final = 256 * 1024
_MOST_WHY: Final = 500
_UNSAID: Final = "the process ended without a word: it was killed, or crashed"


class Phase(StrEnum):
    """How far a start has come."""

    CONFIGURATION = "configuration"
    """The configuration is read."""
    MODEL = "model"
    """A model package is loaded and proved; the subject is its folder."""
    OUTBOX = "outbox"
    """The outbox is opened and what it remembers is taken in."""
    SERVING = "serving"
    """Sockets are opened."""
    RUNNING = "running"
    """Messages are read; it has not run well for long enough yet."""
    WELL = "well"
    """It ran well."""
    STOPPED = "stopped"
    """It was asked to end."""


class Failure(msgspec.Struct, frozen=True):
    """One start that failed: how far it came, with what, and why as far as is known."""

    phase: Phase
    subject: str = ""
    why: str = ""


class Replaced(msgspec.Struct, frozen=True):
    """What safe mode does without, until it changes."""

    good_configuration: bool = False
    models: dict[str, str] = {}
    """Package folders, each with the fingerprint of the package that failed."""
    reasons: tuple[str, ...] = ()


class StartRecord(msgspec.Struct, frozen=True):
    """The present start, and the failed ones in a row before it, newest last."""

    configuration: str = ""
    """A digest of the configuration file's bytes."""
    phase: Phase = Phase.STOPPED
    subject: str = ""
    why: str = ""
    failures: tuple[Failure, ...] = ()
    replaced: Replaced | None = None


class StartLog:
    """The record of one data folder; methods write it and never raise for a disk that fails."""

    def __init__(self, folder: Path | None, record: StartRecord) -> None:
        """`folder` is None where nothing is to be kept."""
        self._folder = folder
        self.record = record
        self.left: Replaced | None = None
        """What safe mode did without until now: the configuration was changed since."""

    @classmethod
    def begin(cls, folder: Path | None, *, configuration: str) -> StartLog:
        """A start begins: what was found of the one before it becomes history."""
        past = StartRecord() if folder is None else read_record(folder)
        crash = _crash(folder)
        failures, replaced = past.failures, past.replaced
        if past.phase in (Phase.WELL, Phase.STOPPED):
            failures = ()
        else:
            failures = (*failures, _failure(past, crash))[-MOST_FAILURES:]
        if past.configuration != configuration:
            failures, replaced = (), None
        log = cls(
            folder,
            StartRecord(
                configuration,
                Phase.CONFIGURATION,
                failures=failures,
                replaced=replaced,
            ),
        )
        log.left = past.replaced if replaced is None else None
        log.write()
        return log

    def replace(self, replaced: Replaced | None) -> None:
        """Notes what safe mode does without."""
        self.record = msgspec.structs.replace(self.record, replaced=replaced)
        self.write()

    def forget(self) -> None:
        """Counts afresh from this start on."""
        self.record = msgspec.structs.replace(self.record, failures=(), replaced=None)
        self.write()

    def mark(self, phase: Phase, subject: str = "") -> None:
        """The start has come so far."""
        failures = () if phase in (Phase.WELL, Phase.STOPPED) else self.record.failures
        self.record = msgspec.structs.replace(
            self.record, phase=phase, subject=subject, failures=failures
        )
        self.write()

    def failed(self, why: str, *, phase: Phase | None = None) -> None:
        """The start ends with an error of which something is known."""
        self.record = msgspec.structs.replace(
            self.record, phase=phase or self.record.phase, why=why[:_MOST_WHY]
        )
        self.write()

    def write(self) -> None:
        """Replaces the file."""
        if self._folder is None:
            return
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            fresh = self._folder / f"{FILE}.new"
            fresh.write_bytes(msgspec.json.encode(self.record))
            fresh.replace(self._folder / FILE)


def crash_file(folder: Path) -> int | None:
    """A file that the interpreter writes its stacks to when a signal kills it; None without one."""
    with suppress(OSError):
        return os.open(folder / CRASH_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    return None


def read_record(folder: Path) -> StartRecord:
    """What was written last; an empty record where there is none or it cannot be read."""
    try:
        with (folder / FILE).open("rb") as file:
            return msgspec.json.decode(file.read(_MOST_BYTES), type=StartRecord)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return StartRecord()


def _crash(folder: Path | None) -> str:
    """What the interpreter said when a signal killed it, if it did."""
    if folder is None:
        return ""
    try:
        with (folder / CRASH_FILE).open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _failure(past: StartRecord, crash: str) -> Failure:
    if past.why:
        return Failure(past.phase, past.subject, past.why)
    if not crash.strip():
        return Failure(past.phase, past.subject, _UNSAID)
    why = crash.strip().splitlines()[0][:_MOST_WHY]
    if past.phase is Phase.RUNNING and "/edge_agent/inference/" in crash:
        return Failure(Phase.MODEL, "", f"{why} while a model ran")
    if past.phase is Phase.RUNNING and "/edge_agent/outbox/" in crash:
        return Failure(Phase.OUTBOX, "", f"{why} in the outbox")
    return Failure(past.phase, past.subject, why)
