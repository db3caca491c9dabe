"""What a backend promises, whatever runs underneath."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """Where a model runs, for logs and `describe`."""

    runtime: str
    provider: str
    pads: bool
    """Whether batches should be padded to a bucket, because each new size is compiled anew."""


class Backend(Protocol):
    """One loaded model. Calls come from one worker thread; none of them touches the event loop."""

    def describe(self) -> BackendInfo:
        """Where it runs."""

    def run(self, features: F32) -> NDArray[Any]:
        """The output for features [b, f], batch axis first, b rows; raises ModelFailed."""

    def unload(self) -> None:
        """Gives its memory back; nothing may be run afterwards."""
