"""What the Dockerfiles say works, as far as it can be seen without a container engine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.tree import ROOT

IMAGES = ("Dockerfile.edge", "Dockerfile.cloud")
PREFIX = "/opt/skerry"
SOURCES = "/src"


class Step(NamedTuple):
    """One instruction of a Dockerfile."""

    word: str
    rest: str


def steps(name: str) -> list[Step]:
    text = re.sub(r"\\\n", " ", (ROOT / name).read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [Step(*line.split(" ", 1)) for line in lines]


def first_stage(name: str) -> list[Step]:
    found = steps(name)
    second = [at for at, step in enumerate(found) if step.word == "FROM"][1]
    return found[:second]


def copied(name: str) -> list[tuple[list[str], str]]:
    """What is copied from the repository, and to where."""
    parts = [step.rest.split() for step in first_stage(name) if step.word == "COPY"]
    return [(words[:-1], words[-1]) for words in parts]


@pytest.mark.parametrize("name", IMAGES)
def test_every_path_that_is_copied_exists_and_reaches_the_build(name: str):
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for sources, _ in copied(name):
        for source in sources:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in ignore, f"{source} is kept from the build by .dockerignore"


@pytest.mark.parametrize("name", IMAGES)
def test_the_image_runs_as_a_user_without_rights(name: str):
    users = [step.rest for step in steps(name) if step.word == "USER"]
    assert users == ["skerry"]


def built(name: str, tmp_path: Path) -> Path:
    """Runs the first stage in a clean folder: files where they are copied to, commands as they stand."""
    sources, prefix = tmp_path / "src", tmp_path / "skerry"
    sources.mkdir()
    for paths, target in copied(name):
        for path in paths:
            if (ROOT / path).is_dir():
                shutil.copytree(
                    ROOT / path, sources / target, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                shutil.copy(ROOT / path, sources / target)
    for step in first_stage(name):
        if step.word != "RUN":
            continue
        line = step.rest.replace(PREFIX, str(prefix))
        if line.startswith("python "):
            line = f"{sys.executable}{line.removeprefix('python')}"
        subprocess.run(["/bin/sh", "-ec", line], cwd=sources, check=True, timeout=280)
    return prefix


@pytest.mark.timeout(300)
def test_the_edge_image_holds_the_agent_and_nothing_of_the_hub(tmp_path: Path):
    prefix = built("Dockerfile.edge", tmp_path)
    programs = {path.name for path in (prefix / "bin").iterdir()}
    assert "edge-agent" in programs
    assert not programs & {"cloud-hub", "quantize", "pip"}
    packages = {path.name for path in next(prefix.glob("lib/python*/site-packages")).iterdir()}
    assert {"edge_agent", "contract"} <= packages
    assert not packages & {"cloud_hub", "quantize", "sqlalchemy", "rich", "pip", "tests", "bench"}
    started(prefix, "Dockerfile.edge")


@pytest.mark.timeout(300)
def test_the_hubs_image_holds_the_hub(tmp_path: Path):
    prefix = built("Dockerfile.cloud", tmp_path)
    assert (prefix / "bin/cloud-hub").exists()
    started(prefix, "Dockerfile.cloud")


def started(prefix: Path, name: str) -> None:
    """The image's own command starts as far as its configuration, which is not there."""
    words = {step.word: step.rest for step in steps(name) if step.word in ("ENTRYPOINT", "CMD")}
    (program,), arguments = json.loads(words["ENTRYPOINT"]), json.loads(words["CMD"])
    absent = [word.replace("/etc/skerry", "/nonexistent") for word in arguments]
    ended = subprocess.run(
        [str(prefix / "bin" / program), *absent], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2, ended.stderr
    assert "/nonexistent" in ended.stderr
    helped = subprocess.run([str(prefix / "bin" / program), "--help"], check=False)
    assert helped.returncode == 0
