"""`python -m edge_agent.rehearse.launcher --config FILE --shift FILE`: the service as `edge-agent run` starts it.

The only difference is the clock, whose wall time a drill can shift.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
from pathlib import Path

from edge_agent.agent.beginning import Beginning, SafeMode, begin
from edge_agent.agent.lifetime import run_agent
from edge_agent.observe.logs import configure_logging
from edge_agent.rehearse.shifted_clock import ShiftedClock


def launch(config: Path, shift: Path) -> None:
    """Runs the agent until SIGTERM."""
    os.umask(0o077)
    beginning = begin(config, safe_mode=SafeMode.ALLOWED)
    configure_logging(beginning.settings.device.log_level, "json")
    gc.freeze()
    asyncio.run(_live(beginning, ShiftedClock(shift)))


async def _live(beginning: Beginning, clock: ShiftedClock) -> None:
    assert beginning.config is not None
    await run_agent(beginning.settings, config=beginning.config, beginning=beginning, clock=clock)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--shift", type=Path, required=True)
    given = parser.parse_args()
    launch(given.config, given.shift)


if __name__ == "__main__":
    main()
