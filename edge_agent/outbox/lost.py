"""What is declared of a spool that is gone, or has lost its end. Pure.

A person may have deleted the file, or put another in its place. What it held above the hub's watermark
is lost; the hub counts it for the lost epoch, less what it has.
"""

from __future__ import annotations

from collections.abc import Mapping

from contract.messages import Gap
from contract.status import Lane
from edge_agent.outbox.head import LaneHead
from edge_agent.outbox.statefile import Given


def lost_spool(
    epoch: str,
    given: Mapping[Lane, Given],
    marks: Mapping[Lane, tuple[int, int]],
    *,
    exact: bool = False,
) -> list[Gap]:
    """The gaps of a lost spool, by what was noted beside it; `exact`: nothing came after the note."""
    gaps = []
    for lane in Lane:
        handed, _ = marks.get(lane, (0, 0))
        noted = given.get(lane) or Given(handed + 1, 0, 0, 0, exact=False)
        last = max(noted.next_seq - 1, handed)
        if last <= noted.applied:
            continue
        sure = (exact or noted.exact) and last == noted.next_seq - 1
        gaps.append(
            Gap(lane, noted.applied + 1, last, 1, noted.readings, "lost", epoch=epoch, exact=sure)
        )
    return gaps


def lost_tail(lane: Lane, mark: LaneHead, *, handed: int, given: Given | None) -> Gap | None:
    """The gap over numbers that were handed out or noted, and that the file does not know."""
    noted = given or Given(1, 0, 0, 0, exact=False)
    last = max(handed, noted.next_seq - 1)
    if last < mark.next_seq:
        return None
    lost = max(noted.total - mark.total, 0)
    sure = noted.exact and last == noted.next_seq - 1
    return Gap(lane, mark.next_seq, last, 1, lost, "lost", exact=sure)
