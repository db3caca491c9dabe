"""Who may touch what, where import-linter cannot see it: environment and configuration files."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import python_files, shown, syntax

ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


def _readers_of_the_environment(path: Path) -> Iterator[str]:
    for node in ast.walk(syntax(path)):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in ENVIRONMENT:
                yield f"{shown(path)}:{node.lineno} os.{name}"
            case ast.ImportFrom(module="os", names=names):
                for alias in names:
                    if alias.name in ENVIRONMENT:
                        yield f"{shown(path)}:{node.lineno} from os import {alias.name}"


def _importers_of_tomllib(path: Path) -> Iterator[str]:
    for node in ast.walk(syntax(path)):
        match node:
            case ast.Import(names=names) if any(alias.name == "tomllib" for alias in names):
                yield f"{shown(path)}:{node.lineno}"
            case ast.ImportFrom(module="tomllib"):
                yield f"{shown(path)}:{node.lineno}"


def _product_but_settings() -> list[Path]:
    files = python_files("contract", "edge_agent", "cloud_hub", "quantize")
    return [path for path in files if path.name != "settings.py"]


def test_only_settings_reads_the_environment():
    assert [
        hit for path in _product_but_settings() for hit in _readers_of_the_environment(path)
    ] == []


def test_only_settings_reads_configuration_files():
    assert [hit for path in _product_but_settings() for hit in _importers_of_tomllib(path)] == []
