"""Plain values as TOML, so that the scratch configuration is a file that a person can read and use. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def toml_of(tables: Mapping[str, Any]) -> str:
    """A document of tables and lists of tables; a key without a value is left out."""
    lines: list[str] = []
    for name, content in tables.items():
        for table in content if isinstance(content, Sequence) else (content,):
            lines.append(f"[[{name}]]" if isinstance(content, Sequence) else f"[{name}]")
            lines += [
                f"{_key(key)} = {_value(value)}"
                for key, value in table.items()
                if value is not None
            ]
            lines.append("")
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | Path):
        return _text(str(value))
    if isinstance(value, Mapping):
        inner = (f"{_key(key)} = {_value(each)}" for key, each in value.items() if each is not None)
        return "{" + ", ".join(inner) + "}"
    return "[" + ", ".join(map(_value, value)) + "]"


def _key(key: str) -> str:
    return key if key.replace("_", "").isalnum() and key.isascii() else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
