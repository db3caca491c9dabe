"""Sizes and names (style: one room, one duty)."""

import ast
import re

from tests.architecture.tree import CODE, PRODUCT, ROOT, python_files, shown, syntax

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60
EMPTY_WORDS = {"common", "helper", "helpers", "manager", "misc", "tools", "util", "utils"}


def test_no_module_is_longer_than_400_lines():
    lengths = {
        shown(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in python_files(*CODE, "tests")
    }
    assert {name: n for name, n in lengths.items() if n > MAX_MODULE_LINES} == {}


def test_no_function_is_longer_than_60_lines():
    long = [
        f"{shown(path)}:{node.lineno} {node.name}: {lines}"
        for path in python_files(*CODE)
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and (lines := node.end_lineno - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_no_module_has_a_name_that_says_nothing():
    empty = [
        shown(path)
        for path in python_files(*CODE, "tests")
        if EMPTY_WORDS & set(re.split(r"[/_]", shown(path).removesuffix(".py")))
    ]
    assert empty == []


def test_no_class_is_named_a_helper_or_manager():
    named = [
        f"{shown(path)}:{node.lineno} {node.name}"
        for path in python_files(*PRODUCT)
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Helper", "Manager", "Util"))
    ]
    assert named == []


def test_every_package_carries_its_types():
    assert [name for name in PRODUCT if not (ROOT / name / "py.typed").exists()] == []
