"""The nets that catch other tests' mistakes do catch: the event-loop guard and the skip rules."""

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from blockbuster import BlockingError

import edge_agent
from tests.architecture.tree import ROOT


async def test_sleeping_in_the_loop_is_refused():
    with pytest.raises(BlockingError, match=r"time\.sleep"):
        time.sleep(0.001)


async def test_a_database_call_in_the_loop_is_refused():
    database = await asyncio.to_thread(sqlite3.connect, ":memory:", check_same_thread=False)
    with pytest.raises(BlockingError, match="sqlite3"):
        database.execute("SELECT 1")
    await asyncio.to_thread(database.close)


async def test_a_blocking_socket_in_the_loop_is_refused():
    left, right = socket.socketpair()
    with left, right, pytest.raises(BlockingError, match=r"socket\.recv"):
        left.recv(1)


async def test_a_socket_that_does_not_block_is_allowed():
    left, right = socket.socketpair()
    with left, right:
        right.setblocking(False)
        with pytest.raises(BlockingIOError):
            right.recv(1)


def _product_reads(path: Path) -> str:
    """Runs `path.read_text()` as if a module of the device had called it."""
    filename = str(Path(edge_agent.__path__[0], "imagined.py"))
    scope: dict[str, object] = {"path": path}
    exec(compile("text = path.read_text()", filename, "exec"), scope)
    return str(scope["text"])


async def test_the_product_may_not_read_a_file_in_the_loop(tmp_path: Path):
    path = tmp_path / "file"
    path.write_text("a test may", encoding="utf-8")
    assert path.read_text(encoding="utf-8") == "a test may"
    with pytest.raises(BlockingError, match="read"):
        _product_reads(path)
    assert await asyncio.to_thread(_product_reads, path) == "a test may"


@pytest.mark.allow_blocking("shows that the guard can be switched off with a reason")
async def test_an_allowed_test_may_block():
    time.sleep(0.001)


def _run_pytest(folder: Path, body: str, *, ci: str) -> int:
    (folder / "conftest.py").write_text("from tests.skips import *\n", encoding="utf-8")
    (folder / "test_it.py").write_text(body, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [*command, "-c", os.devnull, f"--rootdir={folder}", str(folder)],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
    )
    return ended.returncode


SKIPS = "import pytest\ndef test_a(): pytest.skip('no server')\ndef test_b(): pass\n"
PASSES = "def test_b(): pass\n"


@pytest.mark.parametrize(
    ("body", "ci", "code"),
    [(SKIPS, "true", 1), (SKIPS, "", 0), (PASSES, "true", 0)],
    ids=["skip-in-ci", "skip-elsewhere", "no-skip"],
)
def test_a_skip_fails_the_run_in_ci_only(tmp_path: Path, body: str, ci: str, code: int):
    assert _run_pytest(tmp_path, body, ci=ci) == code
