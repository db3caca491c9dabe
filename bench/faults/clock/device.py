"""The agent on a machine whose time service we play: `python -m bench.faults.clock.device FILE edge-agent run …`.

libfaketime gives the process another wall clock, but nobody can fake what the kernel says of it; here the
clock is synchronised exactly while the file exists.
"""

from __future__ import annotations

import sys
from pathlib import Path

from contract.trust import BUILD_S
from edge_agent.cli import main
from edge_agent.clock import SystemClock


def run() -> int:
    """The agent's own command line, with that clock."""
    synchronised = Path(sys.argv[1])

    def trusted(clock: SystemClock) -> bool:
        return clock.wall_s() >= BUILD_S and synchronised.exists()

    setattr(SystemClock, "trusted", trusted)  # noqa: B010 - a method cannot be assigned to, for mypy
    sys.argv = sys.argv[2:]
    return main()


if __name__ == "__main__":
    sys.exit(run())
