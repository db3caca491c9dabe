"""configuration.md: every key of both configuration files."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

import cloud_hub.settings
import edge_agent.settings
from docs.generator.fields import default_of, is_table, valid_values
from docs.generator.markdown import code, document, table
from docs.generator.source import first_sentences

_INTRODUCTION = """
Each program reads one TOML file, once, at its start. An unknown key, a wrong type or a value out of range is an
error: the program names the key, where it stands and what is valid, and ends with exit code 2. `edge-agent check`
does only that, and then looks at what is around the device.

An environment variable overrules the file: the prefix, then table and key in capitals with `__` between them,
as `EDGE_AGENT_BROKER__URL` or `CLOUD_HUB_NATS__PASSWORD`. A variable with the prefix that names no key is an
error too. Passwords and tokens are better there than in the file; they never reach a log line.
"""

_EDGE = """
Default: `/etc/skerry/edge-agent.toml`; another with `--config FILE`. `[device]` with a name and at least one
`[[stream]]` are needed, all else has defaults. Relative paths are relative to the file. `[broker]` may be written several times as
`[[broker]]`: the agent reads them all and publishes to them all.
"""

_HUB = """
Default: `/etc/skerry/cloud-hub.toml`, which may be absent; another with `--config FILE`. `models.packages` and
`store.data_dir` are relative to the file.
"""

_SEVERAL = {"stream": "[[stream]]", "model": "[[model]]"}


def page() -> str:
    """The page."""
    edge = edge_agent.settings
    hub = cloud_hub.settings
    return document(
        "Configuration",
        _INTRODUCTION,
        "## edge-agent.toml",
        _EDGE,
        *_tables(edge.Settings, prefix=""),
        "## cloud-hub.toml",
        _HUB,
        *_tables(hub.Settings, prefix=""),
    )


def _tables(model: type[BaseModel], *, prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = is_table(field.annotation)
        if inner is not None:
            place = f"{prefix}{name}"
            shown = _SEVERAL.get(place, f"[{place}]")
            if place == "stream.channels":
                place, shown = "stream.channels.NAME", "[stream.channels.NAME]"
            yield f"### {code(shown)}"
            yield _purpose(inner)
            yield _keys(inner)
            yield from _tables(inner, prefix=f"{place}.")


def _purpose(model: type[BaseModel]) -> str:
    text = first_sentences(model)
    return text.split(": ", maxsplit=1)[-1][:1].upper() + text.split(": ", maxsplit=1)[-1][1:]


def _keys(model: type[BaseModel]) -> str:
    rows = [
        (code(name), valid_values(field), default_of(field), field.description or "")
        for name, field in model.model_fields.items()
        if is_table(field.annotation) is None
    ]
    return table(("key", "valid", "default", "meaning"), rows)
