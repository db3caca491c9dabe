"""How both programs speak of a wrong configuration: the key, where it stands, what would be valid.

Pure: the text of the file and the names of the environment's variables come in as arguments.
"""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

Location = tuple[int | str, ...]
_SHAPES = ("list_type", "dict_type", "model_type", "model_attributes_type")


def describe(
    error: ValidationError,
    root: type[BaseModel],
    text: str,
    file: object,
    *,
    prefix: str,
    names: Iterable[str],
) -> list[str]:
    """One sentence for each mistake in the file whose content is `text`, or in the environment.

    `names` are the environment's variables; one of them with the `prefix` overrules the file.
    """
    sentences = []
    variables = {name.upper(): name for name in names if name.upper().startswith(prefix)}
    mistakes = error.errors(include_url=False)
    places = [tuple(part for part in each["loc"] if not _is_branch(part)) for each in mistakes]
    for mistake, location in zip(mistakes, places, strict=True):
        if mistake["type"] in _SHAPES and any(
            len(other) > len(location) and other[: len(location)] == location for other in places
        ):
            continue  # the other branch of a union: "no list" where a table was meant
        keys = [
            prefix + "__".join(map(str, location[: n + 1])).upper() for n in range(len(location))
        ]
        variable = next((variables[key] for key in keys if key in variables), "")
        if variable and mistake["type"] == "extra_forbidden":
            continue  # `unknown_variables` tells it
        place = f"environment variable {variable}" if variable else f"{file}{_line(text, location)}"
        sentence = f"{place}: {_where(location)}: {_what(mistake, root, location)}"
        if sentence not in sentences:
            sentences.append(sentence)
    return sentences


def unknown_variables(root: type[BaseModel], prefix: str, names: Iterable[str]) -> list[str]:
    """One sentence for each environment variable with the prefix that means nothing."""
    sentences = []
    for variable in sorted(names):
        if not variable.upper().startswith(prefix):
            continue
        parts = variable[len(prefix) :].lower().split("__")
        table: Any = root
        for part in parts:
            fields = _fields(table)
            if fields is None or part.isdigit():
                break
            if part not in fields:
                sentences.append(
                    f"environment variable {variable}: there is no key {part!r}; "
                    f"valid: {', '.join(sorted(fields))}"
                )
                break
            table = fields[part]
    return sentences


def take_private_keys(tables: dict[str, Any], file: object) -> list[str]:
    """Removes keys such as `_env_file`, words of the settings library to itself; a sentence each."""
    private = [key for key in tables if key.startswith("_")]
    for key in private:
        del tables[key]
    return [f"{file}: {key}: there is no such key" for key in private]


def _is_branch(part: int | str) -> bool:
    """Whether a part of a location is pydantic's name of a union's branch, not a key."""
    return isinstance(part, str) and (
        part.endswith("Settings")
        or part.startswith(("list[", "function-"))
        or part in {"str", "constrained-str"}
    )


def _where(location: Location) -> str:
    words: list[str] = []
    for part in location:
        if isinstance(part, int):
            words[-1] = f"[[{words[-1].strip('[]')}]] number {part + 1}"
        else:
            words.append(f"[{part}]" if not words and len(location) > 1 else part)
    return ", ".join(words) or "the file"


def _what(mistake: Any, root: type[BaseModel], location: Location) -> str:
    kind, given = mistake["type"], mistake.get("input")
    if kind == "extra_forbidden":
        siblings = sorted(_fields(_table_at(root, location[:-1])) or {})
        close = difflib.get_close_matches(str(location[-1]), siblings, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        return f"there is no such key; {hint}valid keys: {', '.join(siblings)}"
    if kind == "missing":
        return "this key is needed and absent"
    if kind == "literal_error":
        return f"{given!r} is not valid; valid: {mistake['ctx']['expected']}"
    if kind == "string_pattern_mismatch":
        return f"{given!r} is not valid; it must match {mistake['ctx']['pattern']}"
    message = str(mistake["msg"]).removeprefix("Value error, ")
    if given is None or isinstance(given, dict | list | BaseModel) or _is_secret(root, location):
        return message
    return f"{given!r} is not valid; {message[0].lower()}{message[1:]}"


def _is_secret(root: type[BaseModel], location: Location) -> bool:
    fields = _fields(_table_at(root, location[:-1])) or {}
    return "SecretStr" in str(fields.get(str(location[-1]) if location else ""))


def _table_at(root: type[BaseModel], location: Location) -> Any:
    table: Any = root
    for part in location:
        fields = _fields(table)
        if fields is not None and part in fields:
            table = fields[str(part)]
    return table


def _fields(annotation: Any) -> dict[str, Any] | None:
    """The keys of the table that an annotation stands for, through lists, dicts and unions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {name: info.annotation for name, info in annotation.model_fields.items()}
    origin = typing.get_origin(annotation)
    if origin in (list, dict, typing.Union, types.UnionType, tuple):
        for argument in reversed(typing.get_args(annotation)):
            if (fields := _fields(argument)) is not None:
                return fields
    return None


def _line(text: str, location: Location) -> str:
    """` line N` of the key at a location, as far as a scan of table headers can tell."""
    if not location:
        return ""
    tables, key = [str(p) for p in location if isinstance(p, str)], str(location[-1])
    wanted = next((p for p in location if isinstance(p, int)), 0)
    count, inside, header_line = -1, len(tables) == 1, 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if header := re.match(r"\[+\s*([A-Za-z0-9_.\"\- ]+?)\s*\]+", line):
            name = header[1].split(".")[0].strip('" ')
            count += line.startswith("[[") and header[1] == tables[0]
            inside = name == tables[0] and (
                count == wanted or (not line.startswith("[[") and count < 1)
            )
            if "." in header[1] and name == tables[0] and count == wanted:
                inside = True
            if inside and not header_line:
                header_line = number
            if inside and header[1].split(".")[-1].strip('" ') == key:
                return f", line {number}"
        elif inside and re.search(rf"(^|[{{,.\s\"]){re.escape(key)}\"?\s*[=.]", line):
            return f", line {number}"
    return f", line {header_line}" if header_line else ""
