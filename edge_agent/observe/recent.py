"""The latest verdicts with what led to them, for `edge-agent explain ID`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from edge_agent.types import JsonObject, Verdict

MAX_VERDICTS = 2_000


class RecentVerdicts:
    """Remembers the last 2,000 verdicts, about 0.5 KiB each; older ones are forgotten."""

    def __init__(self, *, max_verdicts: int = MAX_VERDICTS) -> None:
        self._max_verdicts = max_verdicts
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_plain)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, verdict: Verdict, inputs: Mapping[str, object] | None = None) -> None:
        """Remembers a verdict and the inputs of its routing decision.

        The same id again (a hub's answer after the local one) replaces what was known.
        """
        self._kept[verdict.id] = self._encoder.encode((verdict, inputs or {}))
        if len(self._kept) > self._max_verdicts:
            self._kept.popitem(last=False)

    def explain(self, verdict_id: str) -> JsonObject | None:
        """The verdict's fields and `inputs`; None when it is not (or no longer) known."""
        kept = self._kept.get(verdict_id)
        if kept is None:
            return None
        verdict, inputs = msgspec.msgpack.decode(kept)
        return {**verdict, "inputs": inputs}

    def verdict(self, verdict_id: str) -> Verdict | None:
        """The verdict itself; None when it is not (or no longer) known."""
        kept = self._kept.get(verdict_id)
        return None if kept is None else msgspec.msgpack.decode(kept, type=tuple[Verdict, Any])[0]

    def latest(self, count: int = 10) -> list[str]:
        """The newest ids, newest first."""
        ids = reversed(self._kept)
        return [verdict_id for _, verdict_id in zip(range(count), ids, strict=False)]


def _plain(value: object) -> object:
    """Numbers and arrays of numpy as plain ones."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value)
