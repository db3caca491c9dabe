"""Who may touch what, where import-linter cannot see it: environment and configuration files."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import python_files, shown, syntax

ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


SILENCED = "os.environ.setdefault('ORT_DISABLE_TELEMETRY', '1')"
"""The one thing that is written: onnxruntime must find it when it is imported."""


def _readers_of_the_environment(path: Path) -> Iterator[str]:
    tree = syntax(path)
    silencers = [node for node in ast.walk(tree) if _is_silencer(node)]
    allowed = {id(inner) for node in silencers for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in allowed:
            continue
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in ENVIRONMENT:
                yield f"{shown(path)}:{node.lineno} os.{name}"
            case ast.ImportFrom(module="os", names=names):
                for alias in names:
                    if alias.name in ENVIRONMENT:
                        yield f"{shown(path)}:{node.lineno} from os import {alias.name}"


def _is_silencer(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node) == SILENCED


def _importers_of_tomllib(path: Path) -> Iterator[str]:
    for node in ast.walk(syntax(path)):
        match node:
            case ast.Import(names=names) if any(alias.name == "tomllib" for alias in names):
                yield f"{shown(path)}:{node.lineno}"
            case ast.ImportFrom(module="tomllib"):
                yield f"{shown(path)}:{node.lineno}"


def _product_but_settings() -> list[Path]:
    files = python_files("contract", "edge_agent", "cloud_hub", "quantize")
    return [path for path in files if path.name != "settings.py" and path.parent.name != "settings"]


def test_only_settings_reads_the_environment():
    assert [
        hit for path in _product_but_settings() for hit in _readers_of_the_environment(path)
    ] == []


def test_only_settings_reads_configuration_files():
    assert [hit for path in _product_but_settings() for hit in _importers_of_tomllib(path)] == []


def test_onnxruntime_is_silenced_before_anything_of_ours_can_import_it():
    rooms = ("edge_agent/inference", "cloud_hub/inference", "quantize")
    importers = [
        path
        for path in python_files("contract", "edge_agent", "cloud_hub", "quantize")
        if any(_imports_onnxruntime(node) for node in ast.walk(syntax(path)))
    ]
    assert importers
    for path in importers:
        room = next((room for room in rooms if shown(path).startswith(room)), None)
        assert room is not None, f"{shown(path)} imports onnxruntime outside the rooms that may"
        start = path.parents[len(Path(shown(path)).parts) - 1] / room / "__init__.py"
        assert any(_is_silencer(node) for node in ast.walk(syntax(start)))


def _imports_onnxruntime(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(alias.name.split(".")[0] == "onnxruntime" for alias in names)
        case ast.ImportFrom(module=str(module)):
            return module.split(".")[0] == "onnxruntime"
    return False
