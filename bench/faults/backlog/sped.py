"""The agent with clocks that run faster: `python -m bench.faults.backlog.sped FILE edge-agent run …`.

The file holds a `Pace`. Everything that ages by the agent's clock ages so much faster: rows, and what they
cover. Timers are the event loop's and stay as they are, but for the one that looks for rows that are too
old, which would come once in a drill.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from edge_agent.cli import main
from edge_agent.clock import SystemClock
from edge_agent.outbox import owner


class Pace(msgspec.Struct, frozen=True):
    """From `from_mono_s` on, which was `wall_s`, clocks run `speed` times as fast."""

    speed: float
    wall_s: float
    from_mono_s: float

    def passed_s(self) -> float:
        """Seconds that have passed by these clocks."""
        return (time.monotonic() - self.from_mono_s) * self.speed

    def now_s(self) -> float:
        """The wall clock."""
        return self.wall_s + self.passed_s()


def start_pace(speed: float, *, wall_s: float, path: Path) -> Pace:
    """Clocks that begin now at `wall_s`; the next start of the agent has them."""
    pace = Pace(speed, wall_s, time.monotonic())
    path.write_bytes(msgspec.json.encode(pace))
    return pace


def run() -> int:
    """The agent's own command line, with those clocks."""
    pace = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Pace)

    def wall_s(_: SystemClock) -> float:
        return pace.now_s()

    def mono_ns(_: SystemClock) -> int:
        return int((pace.from_mono_s + pace.passed_s()) * 1e9)

    # Methods and constants of a module cannot be assigned to, for mypy.
    setattr(SystemClock, "wall_s", wall_s)  # noqa: B010
    setattr(SystemClock, "mono_ns", mono_ns)  # noqa: B010
    setattr(owner, "_EXPIRE_EVERY_S", max(0.05, 60.0 / pace.speed))  # noqa: B010
    sys.argv = sys.argv[2:]
    return main()


if __name__ == "__main__":
    sys.exit(run())
