"""The drills, in the order in which they run."""

from __future__ import annotations

from typing import Final

from bench.faults.backlog import draining, offline
from bench.faults.clock import wrong_clock
from bench.faults.disk import (
    failing,
    flips,
    full,
    gone,
    power_agent,
    power_hub,
    power_server,
    server_flips,
    server_full,
    slow,
)
from bench.faults.drill import Drill
from bench.faults.network import bad_links, exhaustion, partition, stream_full
from bench.faults.processes import (
    agent_frozen,
    agent_killed,
    agent_killed_draining,
    agent_out_of_memory,
    agent_stopped,
    crash_loop,
    hub_killed,
    late_resend,
    outbox_crash,
    poison_row,
    rehearsal,
    server_frozen,
    server_killed,
)

DRILLS: Final[tuple[Drill, ...]] = (
    agent_killed.DRILL,
    agent_killed_draining.DRILL,
    server_killed.DRILL,
    hub_killed.DRILL,
    outbox_crash.DRILL,
    agent_stopped.DRILL,
    agent_frozen.DRILL,
    server_frozen.DRILL,
    agent_out_of_memory.DRILL,
    crash_loop.DRILL,
    power_agent.DRILL,
    power_server.DRILL,
    power_hub.DRILL,
    full.DRILL,
    server_full.DRILL,
    stream_full.DRILL,
    *failing.DRILLS,
    slow.DRILL,
    flips.DRILL,
    server_flips.DRILL,
    gone.DRILL,
    exhaustion.DRILL,
    partition.DRILL,
    bad_links.DRILL,
    wrong_clock.DRILL,
    poison_row.DRILL,
    late_resend.DRILL,
    draining.FULL_ROWS,
    draining.SMALL_ROWS,
    offline.BOOTS,
    offline.THREE_DAYS,
    rehearsal.REAL,
    rehearsal.STAND_IN,
)


def chosen(ids: str | None) -> tuple[Drill, ...]:
    """The drills of a comma-separated list, all without one; raises ValueError for an unknown id."""
    if ids is None:
        return DRILLS
    wanted = [each.strip().upper() for each in ids.split(",") if each.strip()]
    known = {drill.id: drill for drill in DRILLS}
    unknown = [each for each in wanted if each not in known]
    if unknown or not wanted:
        raise ValueError(f"no drill {', '.join(unknown) or ids}; there are {', '.join(known)}")
    return tuple(known[each] for each in wanted)
