"""The documents hold together: links lead somewhere, commands exist, records have their parts."""

import re
import tomllib

import pytest

from tests.architecture.tree import ROOT, project_files, shown

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
MAKE = re.compile(r"`make ([a-z.]+)")
RECORDS = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
PARTS = ("Status:", "## Context", "## Options", "## Decision", "## Consequences")


def _documents():
    return [path for path in project_files() if path.suffix == ".md"]


def test_every_relative_link_leads_to_a_file():
    broken = [
        f"{shown(path)}: {target}"
        for path in _documents()
        for target in LINK.findall(path.read_text(encoding="utf-8"))
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert broken == []


def test_every_make_target_in_the_documents_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z.]+):", makefile, flags=re.MULTILINE))
    named = {
        target for path in _documents() for target in MAKE.findall(path.read_text(encoding="utf-8"))
    }
    assert named - targets == set()


def test_decision_records_are_numbered_without_a_hole():
    assert [int(path.name[:4]) for path in RECORDS] == list(range(1, len(RECORDS) + 1))


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_decision_record_has_all_its_parts(record):
    text = record.read_text(encoding="utf-8")
    assert [part for part in PARTS if part not in text] == []


def test_the_index_of_the_documents_names_every_page():
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page not in index and page != "README.md"] == []


def test_every_requirement_is_argued():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    argued = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8").lower()
    lines = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    names = {re.split(r"[\[<>=~! ]", line, maxsplit=1)[0].lower() for line in lines}
    assert sorted(name for name in names if name not in argued) == []
