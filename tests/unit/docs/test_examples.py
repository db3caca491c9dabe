"""Examples in the documents are accepted by the code that they are for."""

import json
import math
import tomllib
from pathlib import Path

import msgspec
import pytest

import cloud_hub.settings
import edge_agent.settings
from contract.features import validate_features
from edge_agent.sources.recording import parse_line
from quantize.cli import main as quantize_main
from quantize.description import Description
from tests.architecture.tree import ROOT, shown
from tests.unit.docs.pages import DOCUMENTS, blocks, text_of

TOML = [
    pytest.param(page, text, id=f"{shown(page)}-{index}")
    for page in DOCUMENTS
    for index, text in enumerate(blocks(page, "toml"))
]
HUB_TABLES = {"nats", "store", "models", "inference", "ingest", "log"}
MISSING = {
    "device": '[device]\nname = "docs"\n',
    "stream": '[[stream]]\nname = "x"\ntopic = "x"\nchannels.x = {}\n',
}


@pytest.mark.parametrize(("page", "text"), TOML)
def test_a_toml_example_loads(page: Path, text: str, tmp_path: Path):
    tables = tomllib.loads(text)
    if "family" in tables:
        validate_features(msgspec.toml.decode(text, type=Description).features)
        return
    file = tmp_path / "example.toml"
    if HUB_TABLES & set(tables):
        file.write_text(text, encoding="utf-8")
        cloud_hub.settings.load_settings(file)
        return
    rest = "".join(table for name, table in MISSING.items() if name not in tables)
    file.write_text(text + "\n" + rest, encoding="utf-8")
    edge_agent.settings.load_settings(file)


def test_the_configurations_of_the_tutorial_load(tmp_path: Path):
    found = {}
    for block in blocks(ROOT / "docs/tutorial.md", "sh"):
        for part in block.split("cat > ")[1:]:
            name, _, rest = part.partition(" <<'END'\n")
            found[name] = rest.partition("\nEND\n")[0]
        if "cat >> edge-agent.toml" in block:
            found["edge-agent.toml"] += block.partition("cat >> edge-agent.toml <<'END'\n")[
                2
            ].partition("END\n")[0]
    for name in ("edge-agent.toml", "cloud-hub.toml"):
        (tmp_path / name).write_text(found[name], encoding="utf-8")
    assert edge_agent.settings.load_settings(tmp_path / "edge-agent.toml").hub.urls
    assert cloud_hub.settings.load_settings(tmp_path / "cloud-hub.toml").nats.monitor_url


@pytest.mark.parametrize("page", DOCUMENTS, ids=shown)
def test_a_json_example_is_json(page: Path):
    for text in blocks(page, "json"):
        try:
            json.loads(text)
        except json.JSONDecodeError:
            for line in text.splitlines():
                json.loads(line)


@pytest.mark.parametrize("page", ["how-to/replay.md", "reference/recordings.md"])
def test_an_example_of_a_recording_can_be_read(page: str):
    lines = [line for text in blocks(ROOT / "docs" / page, "json") for line in text.splitlines()]
    assert [parse_line(line.encode()).topic for line in lines]


def test_python_examples_are_python():
    for page in DOCUMENTS:
        for text in blocks(page, "python"):
            compile(text, str(page), "exec")


@pytest.mark.timeout(120)
def test_the_recipe_of_the_how_to_builds_a_package(tmp_path: Path):
    (recipe,) = blocks(ROOT / "docs/how-to/make-a-model.md", "python")
    family = tmp_path / "boiler-anomaly"
    family.mkdir()
    (family / "recipe.py").write_text(recipe, encoding="utf-8")
    readings = [
        {
            "time_s": 1796026500.0 + 60 * n,
            "values": {
                "temperature": 70 + math.sin(n / 5) + n % 3 / 10,
                "pressure": 2 + n % 7 / 50,
            },
        }
        for n in range(800)
    ]
    (family / "normal.json").write_text(json.dumps({"readings": readings}), encoding="utf-8")
    assert quantize_main(["recipe", str(family)]) == 0
    assert quantize_main(["report", str(family / "package")]) == 0


def test_the_documents_speak_of_the_project_alone():
    named = ("/work/", "../shared", "issue #")
    assert [shown(page) for page in DOCUMENTS if any(word in text_of(page) for word in named)] == []
