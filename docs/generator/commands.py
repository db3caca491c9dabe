"""cli.md: every command of the three programs, its arguments and options."""

from __future__ import annotations

import argparse
import importlib
import inspect
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import typer
import typer.models

import cloud_hub.cli
import edge_agent.cli
import quantize.cli
from docs.generator.markdown import code, document, table
from docs.generator.source import first_sentences

_INTRODUCTION = """
Every command has `--help`. Every command that reads has `--json`: one JSON document on standard output (`replay`:
one verdict a line, the summary last). Errors go to standard error.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | failed, or what was asked about does not exist |
| 2 | wrong configuration, wrong usage, or an input file that is not what it should be |
| 130 | interrupted |
"""

Row = tuple[str, str, str, str]


def page() -> str:
    """The page."""
    return document(
        "Commands",
        _INTRODUCTION,
        "## edge-agent",
        *_argparse(edge_parsers(), "edge-agent"),
        "## cloud-hub",
        *_typer(hub_commands(), "cloud-hub"),
        "## quantize",
        *_argparse(quantize_parsers(), "quantize"),
    )


def edge_parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command of the device."""
    parser = argparse.ArgumentParser(prog="edge-agent")
    commands = parser.add_subparsers()
    for name in edge_agent.cli.COMMANDS:
        importlib.import_module(f"edge_agent.cli.{name}").add_parser(commands)
    return {
        name: _with_summary(commands.choices[name], summary)
        for name, summary in edge_agent.cli.COMMANDS.items()
    }


def quantize_parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command of the workshop."""
    parser = quantize.cli._parser()
    commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    summaries = {each.dest: each.help or "" for each in commands._choices_actions}
    return {name: _with_summary(each, summaries[name]) for name, each in commands.choices.items()}


def hub_commands() -> dict[str, Callable[..., Any]]:
    """The function behind each command of the hub, by the command's full name."""
    return dict(_flat(cloud_hub.cli.app, ""))


def _flat(app: typer.Typer, prefix: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        yield f"{prefix} {name}".strip(), command.callback
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from _flat(group.typer_instance, f"{prefix} {group.name}".strip())


def _with_summary(parser: argparse.ArgumentParser, summary: str) -> argparse.ArgumentParser:
    parser.description = parser.description or summary[:1].upper() + summary[1:] + "."
    return parser


def _argparse(parsers: dict[str, argparse.ArgumentParser], program: str) -> Iterator[str]:
    for name, parser in parsers.items():
        yield f"### {program} {name}"
        yield parser.description or ""
        rows = [_argument(each) for each in parser._actions if each.dest != "help"]
        exclusive = [
            " and ".join(code(_names(each)) for each in group._group_actions)
            for group in parser._mutually_exclusive_groups
        ]
        yield _options(rows)
        yield from (f"{names} exclude each other." for names in exclusive)


def _argument(action: argparse.Action) -> Row:
    value = ""
    if action.nargs != 0:
        if action.choices is not None:
            value = ", ".join(code(str(each)) for each in action.choices)
        elif action.option_strings:
            value = code(str(action.metavar or action.dest.upper()))
        if action.nargs == "+":
            value += ", one or more"
    absent = action.default in (None, [], argparse.SUPPRESS) or action.default is False
    shown = "" if absent else code(str(action.default))
    if action.required or not action.option_strings:
        shown = "required"
    text = "" if not action.help or action.help.startswith("default: %") else action.help
    return _names(action), value, shown, text


def _names(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar or action.dest).upper()
    return ", ".join(action.option_strings)


def _typer(commands: dict[str, Callable[..., Any]], program: str) -> Iterator[str]:
    for name, function in commands.items():
        yield f"### {program} {name}"
        yield first_sentences(function)
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters.values()
        yield _options([_parameter(each, hints[each.name]) for each in parameters])


def _parameter(parameter: inspect.Parameter, hint: Any) -> Row:
    inner, info = typing.get_args(hint)[:2]
    kind = next((e for e in typing.get_args(inner) if e is not type(None)), inner)
    names = parameter.name.upper()
    if not isinstance(info, typer.models.ArgumentInfo):
        # In an annotation, the first name of an option comes in as its default.
        given = [
            *([info.default] if isinstance(info.default, str) else []),
            *(info.param_decls or []),
        ]
        names = ", ".join(given or ["--" + parameter.name.replace("_", "-")])
    value = ""
    if isinstance(kind, type) and issubclass(kind, Enum):
        value = ", ".join(code(str(each.value)) for each in kind)
    elif names.startswith("-") and kind is not bool:
        value = code({str: "TEXT", int: "INTEGER", float: "NUMBER"}.get(kind, "PATH"))
        if info.min is not None and info.max is not None:
            value += f", {info.min} to {info.max}"
    default = parameter.default
    if default is inspect.Parameter.empty:
        shown = "required"
    else:
        shown = "" if default is None or default is False else code(str(default))
    return names, value, shown, info.help or ""


def _options(rows: list[Row]) -> str:
    if not rows:
        return "It has no options."
    shown = [(code(names), value, default, text) for names, value, default, text in rows]
    return table(("argument", "value", "default", "meaning"), shown)
