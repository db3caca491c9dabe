"""No queue without a bound: everything that can pile up stands in a table with what holds it down."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import ROOT, python_files, shown, syntax

PAGE = ROOT / "docs/explanation/bounds.md"
QUEUES = {"LifoQueue", "OrderedDict", "PriorityQueue", "Queue", "SimpleQueue", "deque"}
STAND_INS = "edge_agent/rehearse/"
"""Servers that live as long as one drill, on loopback: only their queues are listed."""
WAITING = re.compile(
    r"Task|Future|StreamWriter|Message|Msg|Inbound|Frame|Entry|Item|Listener|Waiting|Pull|Client"
    r"|Delivered|Kept|Commit|Record|Report|Session|Packets"
)
"""What an annotation says of a list, dict or set whose members wait for something."""
ROW = re.compile(r"^\| `([\w/]+\.py)` `(\w+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)


def _is_pile(path: Path, annotation: str, value: ast.expr) -> bool:
    made = [
        ast.unparse(node.func).split(".")[-1]
        for node in ast.walk(value)
        if isinstance(node, ast.Call)
    ]
    if QUEUES & set(made) or any(name in annotation for name in QUEUES):
        return True
    if shown(path).startswith(STAND_INS):
        return False
    holds = annotation.startswith(("list[", "dict[", "set["))
    return holds and WAITING.search(annotation) is not None and "self" not in ast.unparse(value)


def _piles() -> set[tuple[str, str]]:
    return {
        (shown(path), name)
        for path in python_files("edge_agent", "cloud_hub")
        for name, annotation, value in _attributes(path)
        if _is_pile(path, annotation, value)
    }


def _attributes(path: Path) -> Iterator[tuple[str, str, ast.expr]]:
    """Only what outlives a call: attributes of objects, and what stands in a module or class."""
    local = {
        id(inner)
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.AnnAssign | ast.Assign) and not _on_self(inner)
    }
    for node in ast.walk(syntax(path)):
        if id(node) in local:
            continue
        match node:
            case ast.AnnAssign(target=target, annotation=annotation, value=ast.expr() as value):
                yield ast.unparse(target).removeprefix("self."), ast.unparse(annotation), value
            case ast.Assign(targets=[target], value=value):
                yield ast.unparse(target).removeprefix("self."), "", value


def _on_self(node: ast.AnnAssign | ast.Assign) -> bool:
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return ast.unparse(target).startswith("self.")


def _table() -> dict[tuple[str, str], tuple[str, str]]:
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {(module, name): (bound, why) for module, name, bound, why in found}


def test_everything_that_can_pile_up_has_a_bound_in_the_table():
    assert sorted(_piles() - _table().keys()) == []


def test_the_table_names_nothing_that_is_gone():
    assert sorted(_table().keys() - _piles()) == []


def test_the_words_of_a_bound_stand_in_the_code():
    """A bound that is written as `NAME` or `key.of.settings` is one that exists."""
    code = "\n".join(
        path.read_text(encoding="utf-8") for path in python_files("edge_agent", "cloud_hub")
    )
    missing = [
        (place, word)
        for place, (bound, _) in _table().items()
        for word in re.findall(r"`([\w.]+)`", bound)
        if re.search(rf"\b{re.escape(word.split('.')[-1])}\b", code) is None
    ]
    assert missing == []
