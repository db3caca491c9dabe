"""Readings made from the configuration alone: topics for its filters, payloads for its paths, values in its ranges.

Each reading can be told from every other by the value of its first channel, whatever becomes of its time.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from edge_agent.decode.paths import Step, follow, parse_path
from edge_agent.decode.profiles import make_decoder
from edge_agent.decode.rows import Reject, Rows
from edge_agent.decode.times import TIME_KEYS
from edge_agent.errors import ConfigurationError
from edge_agent.readings.topics import match_levels, stream_name
from edge_agent.settings import Settings, StreamSettings
from edge_agent.settings.streams import ChannelSettings

Path = tuple[Step, ...]
Key = tuple[str, float]
"""A reading: its stream, and the value of its first channel."""

MAX_LIST_INDEX: Final = 1000
_STEP: Final = 1e-7
"""What tells two readings apart, as a share of the range."""
_WORDS: Final = ("rehearsal", "r2", "r3", "r4", "r5", "r6", "r7", "r8")


class NotMade(ConfigurationError):
    """No readings can be made for a stream; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A message to be published, and the readings that the agent must make of it."""

    topic: str
    payload: bytes
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """One topic, the streams that read it, and what its payload holds for all of them."""

    topic: str
    streams: tuple[str, ...]
    first: Path
    """Where the value lies that tells readings apart."""
    ranges: Mapping[Path, tuple[float, float]]
    times: tuple[Path, ...]


class Readings:
    """An endless supply of messages, the streams in turn; `sources` names the topics."""

    def __init__(self, settings: Settings) -> None:
        """Finds a topic and values for every table; raises NotMade that names those it cannot serve."""
        self._settings = settings
        problems: list[str] = []
        self._sources: list[_Source] = []
        for table in settings.stream:
            try:
                self._sources += self._sources_of(table)
            except NotMade as error:
                problems.append(str(error))
        self.left_out = tuple(problems)
        """Tables that no reading can be made for, and why."""
        if not self._sources:
            raise NotMade("\n".join(problems))
        self._number = 0

    @property
    def topics(self) -> list[str]:
        """Where messages go."""
        return [source.topic for source in self._sources]

    def take(self, count: int) -> Iterator[Planned]:
        """The next messages, made as they are asked for: their time is that moment's."""
        for _ in range(count):
            source = self._sources[self._number % len(self._sources)]
            self._number += 1
            yield self._message(source, self._number)

    def _message(self, source: _Source, number: int) -> Planned:
        content: Any = None
        for index, (path, (low, high)) in enumerate(source.ranges.items()):
            span = high - low
            value = low + span * (0.5 + 0.2 * math.sin(number / 7 + index))
            content = _put(content, path, value + span * _STEP * number % (0.2 * span))
        moment = round(time.time(), 6)
        for path in source.times:
            content = _put(content, path, moment)
        first = follow(source.first)(content)
        assert isinstance(first, float)
        keys = tuple((stream, first) for stream in source.streams)
        return Planned(source.topic, json.dumps(content).encode(), keys)

    def _sources_of(self, table: StreamSettings) -> list[_Source]:
        made: list[_Source] = []
        words = _WORDS[:2] if "+" in table.topic or "#" in table.topic else _WORDS[:1]
        why = "every topic of its filter is read by another [[stream]] with other paths as well"
        for word in words:
            topic = "/".join(
                word if level in ("+", "#") else level for level in table.topic.split("/")
            )
            if topic in self._topics_so_far(made):
                continue
            try:
                source = self._source(table, topic)
                self._prove(source)
            except (ConfigurationError, ValueError) as error:
                why = str(error)
                continue
            made.append(source)
        if not made and not any(table.name in each.streams for each in self._sources):
            raise NotMade(f"[[stream]] {table.name!r}: no readings can be made for it: {why}")
        return made

    def _topics_so_far(self, made: list[_Source]) -> set[str]:
        return {each.topic for each in (*self._sources, *made)}

    def _source(self, table: StreamSettings, topic: str) -> _Source:
        others = [
            one for one in self._settings.stream if match_levels(one.topic, topic) is not None
        ]
        if table not in others:
            raise NotMade(f"{topic!r} does not match its filter {table.topic!r}")
        if len({_paths(one)[0] for one in others}) > 1:
            raise NotMade(
                f"{topic!r} feeds {len(others)} tables whose first channels differ: "
                "a drill could not tell their readings apart"
            )
        ranges: dict[Path, tuple[float, float]] = {}
        for one in others:
            for path, channel in zip(_paths(one), one.channels.values(), strict=True):
                low, high = _range(channel)
                before = ranges.get(path, (low, high))
                ranges[path] = max(low, before[0]), min(high, before[1])
        for path, (low, high) in ranges.items():
            if not low < high:
                raise NotMade(f"no value at {path} is possible for all channels that read it")
        times = {found for one in others if (found := _time_path(one, ranges)) is not None}
        streams = tuple(
            stream_name(one.name, one.topic, topic, match_levels(one.topic, topic) or ())
            for one in others
        )
        return _Source(topic, streams, _paths(table)[0], ranges, tuple(times))

    def _prove(self, source: _Source) -> None:
        """Raises NotMade unless every table that reads the topic decodes the payload to the values that were put in."""
        message = self._message(source, 1)
        limits = self._settings.limits
        if len(message.payload) > limits.max_payload_bytes:
            raise NotMade(
                f"a payload takes {len(message.payload)} bytes, above limits.max_payload_bytes"
            )
        for one in self._settings.stream:
            if match_levels(one.topic, source.topic) is None:
                continue
            rows = Rows()
            try:
                made = make_decoder(one, limits).decode(message.payload, rows)
            except Reject as error:
                raise NotMade(
                    f"the payload made for it is refused by {one.name!r}: {error}"
                ) from error
            if made != 1 or rows.faults or rows.values[0] != message.keys[0][1]:
                told = "; ".join(str(each[-1]) for each in rows.faults) or "another value"
                raise NotMade(f"the payload made for it gives {one.name!r} something else: {told}")


def _paths(table: StreamSettings) -> list[Path]:
    return [parse_path(channel.path or name) for name, channel in table.channels.items()]


def _time_path(table: StreamSettings, taken: Collection[Path]) -> Path | None:
    """Where the time goes: the table's path, else the first usual key that no channel begins with."""
    if table.time_path:
        return parse_path(table.time_path)
    if any(isinstance(path[0], int) for path in taken):
        return None  # the payload is a list: it has no place for a time
    keys = {path[0] for path in taken}
    found = next((key for key in TIME_KEYS if key not in keys), None)
    return None if found is None else (found,)


def _range(channel: ChannelSettings) -> tuple[float, float]:
    """Values that are possible, and raise no alarm where that can be had."""
    low = max((x for x in (channel.min, channel.alarm_below) if x is not None), default=None)
    high = min((x for x in (channel.max, channel.alarm_above) if x is not None), default=None)
    if low is not None and high is not None and low >= high:
        low, high = channel.min, channel.max
    if low is None and high is None:
        return 10.0, 30.0
    if low is None:
        assert high is not None
        return high - max(abs(high), 1.0), high
    if high is None:
        return low, low + max(abs(low), 1.0)
    return low, high


def _put(content: Any, steps: tuple[Step, ...], value: float) -> Any:
    """The content with a value at a path; raises NotMade where another value is in the way."""
    if not steps:
        if content is not None and content != value:
            raise NotMade("two paths lead to one place, or one lies within the other")
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        if content is None:
            content = {}
        if not isinstance(content, dict):
            raise NotMade(f"{step!r} would be a key of something that is no object")
        content[step] = _put(content.get(step), rest, value)
        return content
    if content is None:
        content = []
    if not isinstance(content, list) or abs(step) > MAX_LIST_INDEX:
        raise NotMade(
            f"[{step}] would be an index of something that is no list, or of a very long one"
        )
    while not -len(content) <= step < len(content):
        content.append(None)
    content[step] = _put(content[step], rest, value)
    return content
