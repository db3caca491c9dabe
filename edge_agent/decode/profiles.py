"""Chooses the decoder of a stream table by its profile."""

from __future__ import annotations

from collections.abc import Callable

from edge_agent.decode.json_mapping import JsonMapping
from edge_agent.decode.rows import Decoder
from edge_agent.errors import ConfigurationError
from edge_agent.settings import LimitSettings, StreamSettings


def _json(stream: StreamSettings, limits: LimitSettings) -> Decoder:
    paths = {name: channel.path or name for name, channel in stream.channels.items()}
    return JsonMapping(paths, time_path=stream.time_path, max_depth=limits.max_depth)


PROFILES: dict[str, Callable[[StreamSettings, LimitSettings], Decoder]] = {"json": _json}


def make_decoder(stream: StreamSettings, limits: LimitSettings) -> Decoder:
    """The decoder of a stream table; raises ConfigurationError that names the table and the key."""
    try:
        return PROFILES[stream.profile](stream, limits)
    except ValueError as error:
        raise ConfigurationError(f"[[stream]] {stream.name!r}: {error}") from error
