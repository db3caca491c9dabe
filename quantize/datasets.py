"""Public recordings that come inside installed packages; nothing is downloaded.

Imports are local: `river` and `sktime` take seconds to load and only recipes, tests and the demo need them.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

WATERFLOW_PERIOD_S: Final = 3600.0
MOTION_PERIOD_S: Final = 0.1
MOTION_CHANNELS: Final = ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
MOTION_LABELS: Final = ("badminton", "running", "standing", "walking")


def waterflow() -> tuple[F64, F64]:
    """Returns river's WaterFlow as (times f64 [1268] in UTC epoch s, flow f64 [1268] in l/s), in its own order.

    Hourly, with gaps; the local clock changes once, which UTC does not show. A time without a zone is UTC.
    """
    from datetime import UTC

    from river.datasets import WaterFlow

    times: list[float] = []
    flow: list[float] = []
    for row, value in WaterFlow():
        moment = row["Time"]
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        times.append(moment.timestamp())
        flow.append(float(value))
    return np.asarray(times, dtype=np.float64), np.asarray(flow, dtype=np.float64)


def motion(split: Literal["train", "test"]) -> tuple[F64, list[str]]:
    """Returns sktime's BasicMotions as (recordings f64 [40, 100, 6], 40 labels), in its own order, at 10 Hz."""
    from sktime.datasets import load_basic_motions

    recordings, labels = load_basic_motions(split=split, return_type="numpy3D")
    rows_last = np.asarray(recordings, dtype=np.float64)
    return np.ascontiguousarray(rows_last.transpose(0, 2, 1)), [str(label) for label in labels]
