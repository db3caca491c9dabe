"""How a drill speaks to the disk: one JSON line each way on a Unix socket.

    {"rules": [{"calls": ["sync"], "path": "*-wal", "error": "EIO"}]}   from now on these faults and no others
    {"cut": {"seed": 7}}      some of what is unsynced survives; then the program kills itself
    {}                        only asks

Each answer holds the counts: {"calls": {"sync": 12, …}, "hits": […], "unsynced": {"bytes": 0, "names": 0}}.
"""

from __future__ import annotations

import os
import random
import signal
import socketserver
from pathlib import Path
from threading import Lock, Thread
from typing import Final

import msgspec

from bench.faults.powercut.rules import Rule, Rules
from bench.faults.powercut.volume import Volume

MAX_LINE_BYTES: Final = 65536


class Cut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A power cut in which what survives of the unsynced is left to chance."""

    seed: int


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to do; nothing: only answer."""

    rules: tuple[Rule, ...] | None = None
    cut: Cut | None = None


class Answer(msgspec.Struct, frozen=True):
    """The state of the disk after the request."""

    calls: dict[str, int]
    hits: list[int]
    unsynced: dict[str, int]
    error: str = ""


def listen(path: Path, *, volume: Volume, rules: Rules, lock: Lock) -> None:
    """Answers on the socket in a thread of its own, until the program ends."""

    class Handler(socketserver.StreamRequestHandler):
        timeout = 10

        def handle(self) -> None:
            line = self.rfile.readline(MAX_LINE_BYTES)
            self.wfile.write(msgspec.json.encode(_answer(line, volume, rules, lock)) + b"\n")

    path.unlink(missing_ok=True)
    server = socketserver.UnixStreamServer(str(path), Handler)
    Thread(target=server.serve_forever, name="control", daemon=True).start()


def _answer(line: bytes, volume: Volume, rules: Rules, lock: Lock) -> Answer:
    error = ""
    try:
        request = msgspec.json.decode(line, type=Request)
    except msgspec.DecodeError as problem:
        request, error = Request(), str(problem)
    if request.rules is not None:
        error = "; ".join(filter(None, (rule.problem() for rule in request.rules)))
        if not error:
            rules.replace(request.rules)
    with lock:
        if request.cut is not None:
            volume.tear(random.Random(request.cut.seed))
            os.kill(os.getpid(), signal.SIGKILL)  # with the lock held: nothing happens in between
        unsynced = volume.unsynced()
    return Answer(rules.counts(), rules.hits(), unsynced, error)
