"""Rows that nobody has: the device no longer keeps them, and this database never got them. Pure.

It happens when the hub's database is lost or restored from a copy. Without this a watermark would wait for
such rows for ever, and the device would keep all that came after until its quota is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cloud_hub.store.apply import Batch
from cloud_hub.store.gaps import gap_values
from cloud_hub.store.marks import LaneKey, Marks
from contract.messages import LaneReport
from contract.status import Lane

HUB: Final = "hub-"
"""With the name of a lane, the origin of a record that the hub made of it; its number is the gap's first."""
REASON = "kept by nobody; the hub's database was lost or restored"


def forgone_rows(
    lanes: Mapping[str, LaneReport],
    keys: Mapping[str, LaneKey],
    marks: Mapping[LaneKey, Marks],
    *,
    pending: Mapping[str, int],
    now_s: float,
) -> Batch | None:
    """A batch that declares such rows as gaps of unknown size, or None where there are none.

    Nothing is given up that may still be on its way: the lane and `evt`, in which gap records travel, must
    have nothing pending, and all that the device has in `evt` must be stored.
    """
    batch = Batch(now_s)
    for name, key in keys.items():
        first, last = marks[key].applied + 1, lanes[name].first_kept - 1
        if first > last or pending.get(name, 0) or pending.get(Lane.EVT, 0):
            continue
        if name != Lane.EVT and not _events_complete(lanes, keys, marks):
            continue
        batch.covered[key] = [(first, last)]
        origin = {"device": key[0], "epoch": key[1], "lane": HUB + name, "seq": first}
        span = (first, last, 1)
        batch.gaps.append(gap_values(origin, key, span, readings=0, reason=REASON, exact=False))
    return batch if batch.gaps else None


def _events_complete(
    lanes: Mapping[str, LaneReport], keys: Mapping[str, LaneKey], marks: Mapping[LaneKey, Marks]
) -> bool:
    report = lanes.get(Lane.EVT)
    return report is not None and marks[keys[Lane.EVT]].applied >= report.next_seq - 1
