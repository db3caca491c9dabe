"""Every task has a name, every queue a bound (style: lifetimes and limits)."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import CODE, python_files, shown, syntax

QUEUES = {"LifoQueue", "PriorityQueue", "Queue", "SimpleQueue"}


def _calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(syntax(path)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
                yield name, node


def test_every_task_has_a_name():
    nameless = [
        f"{shown(path)}:{call.lineno}"
        for path in python_files(*CODE)
        for name, call in _calls(path)
        if name == "ensure_future"
        or (name == "create_task" and not any(word.arg == "name" for word in call.keywords))
    ]
    assert nameless == []


def test_every_queue_has_a_bound():
    unbounded = [
        f"{shown(path)}:{call.lineno}"
        for path in python_files(*CODE)
        for name, call in _calls(path)
        if name in QUEUES and not call.args and not call.keywords
    ]
    assert unbounded == []
