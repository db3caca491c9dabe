"""Types and valid values of declared fields, in words."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

_PLAIN = {str: "text", bool: "true or false", int: "integer", float: "number", bytes: "bytes"}
_MIB = 1024 * 1024


def valid_values(field: FieldInfo) -> str:
    """What a key of the configuration may be."""
    return _words(field.annotation, field.metadata)


def default_of(field: FieldInfo) -> str:
    """The default as it would stand in TOML; "required" where there is none."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and value and value % _MIB == 0:
        return f"`{value}` ({value // _MIB} MiB)"
    return f"`{_toml(value)}`"


def struct_rows(struct: type[msgspec.Struct]) -> list[tuple[str, str, str]]:
    """Each field of a message: name, type, default."""
    hints = typing.get_type_hints(struct)
    rows = []
    for field in msgspec.structs.fields(struct):
        default = ""
        if not field.required:
            value = field.default
            if value is msgspec.NODEFAULT:
                value = field.default_factory()
            default = "" if value is None else _shown(value)
        rows.append((field.encode_name, _type_name(hints[field.name]), default))
    return rows


def is_table(annotation: Any) -> type[BaseModel] | None:
    """The model behind an annotation, through lists, mappings and alternatives; None for a plain key."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in typing.get_args(annotation):
        if (found := is_table(inner)) is not None:
            return found
    return None


def _words(annotation: Any, metadata: Iterable[Any]) -> str:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    metadata = list(metadata)
    if origin is typing.Annotated:
        extra = [
            m for one in inner[1:] for m in (one.metadata if isinstance(one, FieldInfo) else [one])
        ]
        return _words(inner[0], [*extra, *metadata])
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_words(each, metadata) for each in inner if each is not type(None))
    if origin is typing.Literal:
        return ", ".join(f"`{_toml(each)}`" for each in inner)
    if origin in (list, tuple):
        return f"list of {_words(inner[0], [])}" + _lengths(metadata, "entries")
    if annotation is Path:
        return "path"
    if annotation is SecretStr:
        return "text (never shown)"
    word = _PLAIN.get(annotation, getattr(annotation, "__name__", str(annotation)))
    return word + _limits(metadata)


def _limits(metadata: list[Any]) -> str:
    pattern = next((each.pattern for each in metadata if getattr(each, "pattern", None)), "")
    words = ""
    low, above, high = (_limit(metadata, name) for name in ("ge", "gt", "le"))
    if low is not None and high is not None:
        words += f", {low} to {high}"
    elif low is not None:
        words += f", at least {low}"
    elif above is not None:
        words += f", above {above}"
    words += _lengths(metadata, "characters")
    return words + (f", as `{pattern}`" if pattern else "")


def _limit(metadata: list[Any], name: str) -> Any:
    return next(
        (value for each in metadata if (value := getattr(each, name, None)) is not None), None
    )


def _lengths(metadata: list[Any], unit: str) -> str:
    low, high = _limit(metadata, "min_length"), _limit(metadata, "max_length")
    if low is not None and high is not None:
        return f", {low} to {high} {unit}"
    return f", at most {high} {unit}" if high is not None else ""


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, Path):
        return json.dumps(str(value))
    return json.dumps(value)


def _shown(value: Any) -> str:
    return f"`{json.dumps(msgspec.to_builtins(value))}`"


def _type_name(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return ", ".join(f"`{each}`" for each in inner)
    if origin in (types.UnionType, typing.Union):
        named = [_type_name(each) for each in inner if each is not type(None)]
        return " or ".join(named)
    if origin is tuple:
        shown = [_type_name(each) for each in inner if each is not Ellipsis]
        return f"list of {shown[0]}" if Ellipsis in inner else f"({', '.join(shown)})"
    if origin is dict:
        return f"map of {_type_name(inner[0])} to {_type_name(inner[1])}"
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return f"text ({hint.__name__})"
    return _PLAIN.get(hint, getattr(hint, "__name__", str(hint)))
