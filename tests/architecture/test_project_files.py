"""The files of the project name no machine, and versions are fixed by name alone."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.tree import ROOT, project_files, shown

HOMES = re.compile(r"(?<![\w.])/(?:home|root|Users)/\w")
REGISTRIES = re.compile(
    r"(?:\bpypi\.org|pythonhosted\.org|registry\.npmjs|deb\.debian\.org|\bcrates\.io|docker\.io|ghcr\.io)"
)
TEXT = {".cfg", ".conf", ".json", ".md", ".py", ".service", ".toml", ".txt", ".yaml", ".yml", ""}


def test_no_file_names_a_place_on_somebodys_machine():
    hits = []
    for path in project_files():
        if path.suffix not in TEXT:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if str(ROOT) + "/" in text or HOMES.search(text) or REGISTRIES.search(text):
            hits.append(shown(path))
    assert hits == []


def test_no_file_is_larger_than_two_megabytes():
    large = [shown(path) for path in project_files() if path.stat().st_size > 2 * 1024 * 1024]
    assert large == []


def _constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pins}


def test_constraints_are_names_and_versions_only():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    wrong = [
        line
        for line in lines
        if line and not line.startswith("#") and not re.fullmatch(r"[A-Za-z0-9._-]+==[\w.]+", line)
    ]
    assert wrong == []


def test_every_requirement_is_fixed_by_a_constraint_that_it_allows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    constraints = _constraints()
    wrong = []
    for text in named:
        wanted = Requirement(text)
        if canonicalize_name(wanted.name) == project["name"]:
            continue
        version = constraints.get(canonicalize_name(wanted.name))
        if version is None or not wanted.specifier.contains(version, prereleases=True):
            wrong.append(f"{text} (constraint: {version})")
    assert wrong == []
