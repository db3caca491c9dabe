"""What stands in the source text only: the sentences below members of a class, and calls of the log."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType


def member_sentences(module: ModuleType, name: str) -> dict[str, str]:
    """For a class of the module: each member and the text in quotes below it ("" where there is none)."""
    body = next(
        node.body
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    sentences: dict[str, str] = {}
    member = ""
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            member = node.targets[0].id
            sentences[member] = ""
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            member = node.target.id
            sentences[member] = ""
        elif member and (text := _text(node)) is not None:
            sentences[member] = " ".join(text.split())
            member = ""
        else:
            member = ""
    return sentences


def first_sentences(thing: object) -> str:
    """The docstring without the paragraphs after the first."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n", maxsplit=1)[0].split())


def log_calls(package: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Every call of a logger in a package: the event (a text, or the member's name), level and keys."""
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args and (level := _level(node.func)):
                keys = tuple(word.arg for word in node.keywords if word.arg)
                yield from ((event, level, keys) for event in _events(node.args[0], tree))


def _level(function: ast.expr) -> str:
    """The level that is logged at; "" for a call of something else."""
    if isinstance(function, ast.Name):  # `level = log.info if … else log.warning`
        return "info, warning" if function.id == "level" else ""
    if not isinstance(function, ast.Attribute):
        return ""
    owner = ast.unparse(function.value)
    logger = owner.split("(", maxsplit=1)[0].rsplit(".", maxsplit=1)[-1]
    known = logger in {"log", "_log", "get_logger"}
    return function.attr if known and function.attr in _LEVELS else ""


_LEVELS = {"debug", "info", "warning", "error"}


def _events(argument: ast.expr, tree: ast.Module) -> list[str]:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return [argument.value]
    if isinstance(argument, ast.Attribute) and ast.unparse(argument.value) == "Event":
        return [argument.attr]
    if isinstance(argument, ast.Subscript):  # `_EVENT_OF[health]`: any value of that table
        values = _table_values(tree, ast.unparse(argument.value))
        return [event for value in values for event in _events(value, tree)]
    return []


def _table_values(tree: ast.Module, name: str) -> list[ast.expr]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Dict(values=values)):
                if found == name:
                    return values
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.Dict(values=values)):
                if found == name:
                    return values
    return []


def _text(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return node.value.value if isinstance(node.value.value, str) else None
    return None
