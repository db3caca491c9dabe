"""Made-up sensors of four channels: a sine each plus noise, the same in every run."""

import numpy as np
from numpy.typing import NDArray

CHANNELS = ("a", "b", "c", "d")
_TABLE = 4096
_SHAPES = ((20.0, 5.0, 1), (1.0, 0.5, 2), (50.0, 10.0, 4), (0.0, 2.0, 8))
_STREAM_SHIFT = 37


def waves(*, seed: int = 1) -> NDArray[np.float64]:
    """One period of the made-up world, f64 [4096, 4]."""
    rng = np.random.default_rng(seed)
    phase = np.arange(_TABLE) * (2 * np.pi / 64)
    columns = [
        level + swing * np.sin(phase / slow) + rng.normal(0, 0.02 * swing, _TABLE)
        for level, swing, slow in _SHAPES
    ]
    return np.stack(columns, axis=1)


def windows(rows: int, *, count: int) -> NDArray[np.float64]:
    """Windows as a stream would show them, f64 [count, rows, 4]."""
    table = waves()
    starts = np.random.default_rng(2).integers(0, _TABLE - rows, count)
    return np.stack([table[start : start + rows] for start in starts])


class Sensors:
    """Payloads of any number of streams, as JSON."""

    def __init__(self) -> None:
        self._rows = waves().tolist()

    def payload(self, stream: int, number: int, *, time_s: float) -> bytes:
        """Reading `number` of a stream."""
        a, b, c, d = self._rows[(number + _STREAM_SHIFT * stream) % _TABLE]
        text = (
            f'{{"time":{time_s:.3f},"n":{number},"a":{a:.4f},"b":{b:.4f},"c":{c:.4f},"d":{d:.4f}}}'
        )
        return text.encode()
