"""The balance of a backlog that was put into an outbox: as `bench.faults.ledger`, for millions of readings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.faults.backlog.fill import Filled
from bench.faults.evidence import read_ledger
from bench.faults.ledger import Balance
from bench.stack import Hub

Times: TypeAlias = NDArray[np.float64]


def judge_backlog(hub: Hub, filled: Filled, ledgers: list[Path], foreign: str = "-") -> Balance:
    """The balance of the backlog and of what sensors sent besides; call off the loop.

    Streams whose name begins with `foreign` are left out: nobody wrote down what was sent to them.
    """
    wanted: dict[str, list[Times]] = {name: [times] for name, times in filled.ledger().items()}
    for ledger in ledgers:
        more: dict[str, list[float]] = defaultdict(list)
        for stream, time_s in read_ledger(ledger):
            more[stream].append(time_s)
        for stream, times in more.items():
            wanted.setdefault(stream, []).append(np.asarray(times))
    stored: dict[str, list[Times]] = defaultdict(list)
    statement = "SELECT stream, times FROM telemetry ORDER BY epoch, seq, first"
    for stream, body in hub.rows(statement):
        if not stream.startswith(foreign):
            stored[stream].append(np.frombuffer(body, "<f8"))
    declared = hub.rows("SELECT sum(readings) FROM gaps WHERE gap_lane = 'tel'")
    return balance_of(
        {name: np.concatenate(parts) for name, parts in wanted.items()},
        {name: np.concatenate(parts) for name, parts in stored.items()},
        declared=(declared[0][0] or 0) if declared else 0,
    )


def balance_of(
    acknowledged: Mapping[str, Times], stored: Mapping[str, Times], *, declared: int
) -> Balance:
    """Compares the times of each stream; `stored` is in order of the row numbers."""
    missing = duplicate = phantom = order = 0
    none = np.empty(0)
    for stream in acknowledged.keys() | stored.keys():
        sent, found = acknowledged.get(stream, none), stored.get(stream, none)
        unique = np.unique(found)
        missing += int((~np.isin(sent, unique)).sum())
        phantom += int((~np.isin(unique, sent)).sum())
        duplicate += len(found) - len(unique)
        order += int((found < np.maximum.accumulate(found)).sum()) if len(found) else 0
    return Balance(
        acknowledged=sum(map(len, acknowledged.values())),
        stored=sum(map(len, stored.values())),
        missing=missing,
        declared=declared,
        duplicate=duplicate,
        phantom=phantom,
        order_errors=order,
    )
