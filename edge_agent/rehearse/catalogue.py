"""The drills, in the order in which they run."""

from __future__ import annotations

from typing import Final

from edge_agent.errors import ConfigurationError
from edge_agent.rehearse.device_drills import CLOCK_JUMP, CORRUPT_SPOOL, DISK_FULL, POISON_ROW
from edge_agent.rehearse.drilling import Drill
from edge_agent.rehearse.kill_drills import KILL_DRAIN, KILL_INGEST
from edge_agent.rehearse.link_drills import HALF_OPEN, LINK_CUT, SERVER_FROZEN

DRILLS: Final = {
    drill.name: drill
    for drill in (
        LINK_CUT,
        HALF_OPEN,
        SERVER_FROZEN,
        KILL_INGEST,
        KILL_DRAIN,
        DISK_FULL,
        CLOCK_JUMP,
        CORRUPT_SPOOL,
        POISON_ROW,
    )
}


def choose(names: str | None) -> list[Drill]:
    """The drills of a comma-separated list, all of them without one; raises ConfigurationError."""
    if names is None:
        return list(DRILLS.values())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in DRILLS]
    if unknown or not wanted:
        what = (
            f"no drill is called {', '.join(map(repr, unknown))}"
            if unknown
            else "no drill is named"
        )
        raise ConfigurationError(f"--drills: {what}; there are {', '.join(DRILLS)}")
    return [DRILLS[name] for name in dict.fromkeys(wanted)]
