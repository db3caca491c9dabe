"""The streams of the device: which topic feeds which, and the tables that declare them."""

from __future__ import annotations

from dataclasses import dataclass

from edge_agent.errors import ConfigurationError
from edge_agent.readings.topics import match_levels, may_name, stream_name
from edge_agent.readings.validate import Limits
from edge_agent.settings import StreamSettings


@dataclass(frozen=True, slots=True)
class Kind:
    """One `[[stream]]` table: streams of this kind share channels, windows, model and deadline."""

    index: int
    settings: StreamSettings
    channels: tuple[str, ...]
    units: tuple[str, ...]
    limits: Limits
    window: int
    hop: int


def make_kind(index: int, settings: StreamSettings, model_shape: tuple[int, int] | None) -> Kind:
    """A kind from its table; `model_shape` is the (window, hop) that its model was made for.

    Raises ConfigurationError when the table asks for another window than the model's.
    """
    window, hop = settings.window or 1, settings.hop or 1
    if model_shape is not None:
        if settings.window not in (0, model_shape[0]):
            raise ConfigurationError(
                f"[[stream]] {settings.name!r}: window = {settings.window}, but model "
                f"{settings.model!r} was made for {model_shape[0]}; leave `window` out"
            )
        window, hop = model_shape[0], settings.hop or model_shape[1]
    channels = settings.channels
    return Kind(
        index=index,
        settings=settings,
        channels=tuple(channels),
        units=tuple(channel.unit for channel in channels.values()),
        limits=Limits.of([(channel.min, channel.max) for channel in channels.values()]),
        window=window,
        hop=hop,
    )


class TooManyStreams(Exception):
    """A topic would have opened a stream beyond the limit."""


class Registry:
    """Finds the streams of a topic; remembers the answer, within a bound.

    A stream has a slot: its index among the streams of its kind. The same topic may feed several
    kinds; two topics of one kind feed the same stream only if the table's name says so.
    """

    def __init__(self, kinds: list[Kind], *, max_streams: int) -> None:
        """Knows no stream yet; at most `max_streams` are ever opened."""
        self.kinds = kinds
        self._max_streams = max_streams
        self._slots: dict[str, tuple[int, int]] = {}
        self._names: list[list[str]] = [[] for _ in kinds]
        self._plans: dict[str, tuple[tuple[int, int], ...]] = {}

    @property
    def count(self) -> int:
        """How many streams are open."""
        return len(self._slots)

    def name(self, kind: int, slot: int) -> str:
        """The name of a stream."""
        return self._names[kind][slot]

    def names(self) -> list[str]:
        """The names of all streams that were seen."""
        return list(self._slots)

    def find(self, name: str) -> tuple[int, int] | None:
        """The (kind, slot) of a stream that is open."""
        return self._slots.get(name)

    def plan(self, topic: str) -> tuple[tuple[int, int], ...]:
        """The (kind, slot) pairs that a topic feeds; empty when no stream claims it.

        Raises TooManyStreams when it would need a stream beyond the limit.
        """
        plan = self._plans.get(topic)
        if plan is None:
            plan = tuple(self._open(topic))
            if len(self._plans) >= 2 * self._max_streams + 1024:
                self._plans.clear()  # a storm of topics that nobody claims must not grow memory
            self._plans[topic] = plan
        return plan

    def open(self, kind: int, name: str) -> int:
        """The slot of a stream by name, opened if need be. Raises TooManyStreams."""
        found = self._slots.get(name)
        if found is not None:
            if found[0] != kind:
                raise ConfigurationError(
                    f"stream {name!r} belongs to [[stream]] "
                    f"{self.kinds[found[0]].settings.name!r} and to "
                    f"{self.kinds[kind].settings.name!r}; give one another name"
                )
            return found[1]
        if len(self._slots) >= self._max_streams:
            raise TooManyStreams(name)
        slot = len(self._names[kind])
        self._names[kind].append(name)
        self._slots[name] = (kind, slot)
        return slot

    def kind_of(self, name: str, channels: tuple[str, ...], *, table: str = "") -> int | None:
        """The kind that a stored stream belongs to, if its channels are still the same.

        `table` is the name of its `[[stream]]` table, where it is known; otherwise the kind whose
        names have this form, one that has no places in its name first.
        """
        if (found := self._slots.get(name)) is not None:
            return found[0] if self.kinds[found[0]].channels == channels else None
        for kind in sorted(self.kinds, key=lambda kind: "{" in kind.settings.name):
            settings = kind.settings
            if kind.channels != channels or (table and table != settings.name):
                continue
            if may_name(settings.name, settings.topic, name):
                return kind.index
        return None

    def _open(self, topic: str) -> list[tuple[int, int]]:
        plan = []
        for kind in self.kinds:
            settings = kind.settings
            matched = match_levels(settings.topic, topic)
            if matched is not None:
                name = stream_name(settings.name, settings.topic, topic, matched)
                plan.append((kind.index, self.open(kind.index, name)))
        return plan
