"""What was asked and what was answered, so that the same request is run once and answered alike. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from cloud_hub.types import Outcome
from contract.status import Status

MAX_LISTENERS: Final = 8
Listener = Callable[[Outcome], None]
Identity = tuple[str, str]
"""Device and request id."""

FINAL: Final = frozenset({Status.OK, Status.INTERNAL, Status.EXPIRED, Status.CANCELLED})
"""Outcomes that a repeated request gets again; a refusal may be worth another try."""


class AnswerMemory:
    """Remembers requests that wait, with who listens, and the last final outcomes, oldest forgotten first."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._listeners: dict[Identity, list[Listener]] = {}
        self._outcomes: OrderedDict[Identity, Outcome] = OrderedDict()

    def outcome(self, identity: Identity) -> Outcome | None:
        """The outcome that this request had, or None."""
        return self._outcomes.get(identity)

    def join(self, identity: Identity, listener: Listener) -> bool:
        """Lets a repeated request listen to the one that waits already; False when none does."""
        listeners = self._listeners.get(identity)
        if listeners is None:
            return False
        if len(listeners) >= MAX_LISTENERS:
            del listeners[0]
        listeners.append(listener)
        return True

    def begin(self, identity: Identity, listener: Listener) -> None:
        """Notes that the request waits now."""
        self._listeners[identity] = [listener]

    def settle(self, identity: Identity, outcome: Outcome) -> list[Listener]:
        """Notes the outcome; returns who listens, each once."""
        if outcome.status in FINAL:
            self._outcomes[identity] = outcome
            self._outcomes.move_to_end(identity)
            if len(self._outcomes) > self._most:
                self._outcomes.popitem(last=False)
        return self._listeners.pop(identity, [])
