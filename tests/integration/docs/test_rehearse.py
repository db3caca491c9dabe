"""The page on rehearsals: its first command works as it is written, and it knows every drill and column."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from edge_agent.rehearse.catalogue import DRILLS
from tests.architecture.tree import ROOT
from tests.unit.docs.pages import blocks, text_of

PAGE = ROOT / "docs/how-to/rehearse.md"


@pytest.mark.timeout(120)
async def test_the_first_command_works_as_it_is_written(tmp_path: Path) -> None:
    first = blocks(PAGE, "sh")[0]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *("bash", "-eu", "-c", first),
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    shown = out.decode()
    assert process.returncode == 0, shown
    [header] = [line for line in shown.splitlines() if line.startswith("drill")]
    [documented] = [line for line in text_of(PAGE).splitlines() if line.startswith("drill ")]
    assert header.split() == documented.split()
    assert "link_cut  pass" in shown
    assert "passed: 1 of 1 drills" in shown


def test_the_page_explains_every_drill():
    page = text_of(PAGE)
    assert [name for name in DRILLS if f"| `{name}` |" not in page] == []
