"""Every command that the documents name exists, with the options that they give it."""

import argparse
import inspect
import re
import shlex
import typing
from pathlib import Path

import pytest

from docs.generator.commands import edge_parsers, hub_commands, quantize_parsers
from tests.architecture.tree import shown
from tests.unit.docs.pages import DOCUMENTS, blocks, words_in_code

PROGRAMS = ("edge-agent", "cloud-hub", "quantize")
OPERATORS = {"|", "&", "&&", ";", ">", ">>", "<", "2>", "2>>"}


def commands_of(text: str) -> list[list[str]]:
    """The calls of our programs in a piece of shell."""
    text = re.sub(
        r"<<'?END'?\n.*?^END$", "", text.replace("\\\n", " "), flags=re.MULTILINE | re.DOTALL
    )
    found = []
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        words = list(lexer)
        for start, word in enumerate(words):
            if word not in PROGRAMS:
                continue
            before = words[start - 1] if start else "|"
            if before not in OPERATORS:
                continue
            rest = words[start:]
            end = next((i for i, each in enumerate(rest) if each in OPERATORS), len(rest))
            found.append(rest[:end])
    return found


def options_of(function: typing.Any) -> set[str]:
    """The options of a command of the hub, as its annotations name them."""
    hints = typing.get_type_hints(function, include_extras=True)
    names = {"--help"}
    for parameter in inspect.signature(function).parameters.values():
        info = typing.get_args(hints[parameter.name])[1]
        given = [info.default] if isinstance(info.default, str) else []
        names |= set(given or ["--" + parameter.name.replace("_", "-")]) | set(
            info.param_decls or []
        )
    return names


def names_of(program: str) -> list[str]:
    """The commands of one of our programs."""
    if program == "cloud-hub":
        return list(hub_commands())
    return list(edge_parsers() if program == "edge-agent" else quantize_parsers())


def problem(command: list[str]) -> str:
    """What is wrong with a call, or ""."""
    program, *words = command
    if not words or words[0] == "--help":
        return ""
    if program == "cloud-hub":
        known = hub_commands()
        name = next((each for each in known if words[: len(each.split())] == each.split()), None)
        if name is None:
            return f"no such command: {command}"
        given = {word for word in words if re.fullmatch(r"--?[a-z-]+", word)}
        wrong = given - options_of(known[name])
        return f"no such option: {wrong} in {command}" if wrong else ""
    parsers = edge_parsers() if program == "edge-agent" else quantize_parsers()
    if words[0] not in parsers:
        return f"no such command: {command}"
    try:
        parsers[words[0]].parse_args(words[1:])
    except (SystemExit, argparse.ArgumentError):
        return f"wrong usage: {command}"
    return ""


@pytest.mark.parametrize("page", DOCUMENTS, ids=shown)
def test_every_command_in_a_block_can_be_called_like_that(page: Path):
    calls = [call for block in blocks(page, "sh") for call in commands_of(block)]
    assert [found for call in calls if (found := problem(call))] == []


@pytest.mark.parametrize("page", DOCUMENTS, ids=shown)
def test_every_command_in_a_line_exists(page: Path):
    wrong = []
    for code in words_in_code(page):
        words = code.split()
        if not words or words[0] not in PROGRAMS or len(words) < 2 or words[1].startswith("-"):
            continue
        known = names_of(words[0])
        rest = " ".join(words[1:])
        if not any(rest == name or rest.startswith(f"{name} ") for name in known):
            wrong.append(code)
    assert wrong == []


def test_the_finder_of_commands_sees_pipes_redirections_and_backgrounds():
    text = "echo 1 |\n  edge-agent decode --topic t < x &\ncloud-hub serve 2> log & hub=$!\nrm edge-agent\n"
    assert commands_of(text) == [["edge-agent", "decode", "--topic", "t"], ["cloud-hub", "serve"]]
    assert problem(["edge-agent", "dance"])
    assert problem(["edge-agent", "decode", "--no-such"])
    assert problem(["cloud-hub", "device", "list", "--no-such"])
    assert problem(["cloud-hub", "dance"])
