"""What a start has made sure of before the outbox is opened: the ground on which its agents stand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from edge_agent.agent.beginning import Beginning
from edge_agent.agent.starts import Phase
from edge_agent.inference.load import Loaded
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.observe.sd_notify import Supervisor
from edge_agent.settings import Settings
from edge_agent.types import Clock

PROVED_S = 5.0
"""After so long an agent that has decided something is thought to run well."""
QUIET_S = 60.0
"""The same, where no message came."""
_LOOK_S = 0.5


class Keeping(Enum):
    """What becomes of what an agent decides."""

    STORED = "stored"
    VOLATILE = "volatile"
    """The outbox cannot be opened: verdicts are given, nothing is stored or acknowledged."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Shared by the agents that one process runs, one after the other."""

    settings: Settings
    loaded: Loaded
    clock: Clock
    supervisor: Supervisor
    watchdog_s: float
    beginning: Beginning

    @property
    def replaced(self) -> tuple[str, ...]:
        """What safe mode replaced, a sentence each."""
        return self.beginning.plan.why if self.beginning.plan.careful else ()

    async def mark(self, phase: Phase) -> None:
        """Notes how far the start has come."""
        await asyncio.to_thread(self.beginning.log.mark, phase)

    async def prove(self, decided: Callable[[], int], stuck: Callable[[], str]) -> None:
        """Returns once the agent ran well for long enough, and has noted it."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        while True:
            await asyncio.sleep(_LOOK_S)
            if stuck():
                begin_s = loop.time()
            if loop.time() - begin_s >= (PROVED_S if decided() else QUIET_S):
                break
        await self.ran_well(Phase.WELL)

    async def ran_well(self, phase: Phase) -> None:
        """Notes that this start was a good one, and keeps its configuration for a bad day."""
        await self.mark(phase)
        with suppress(OSError):
            if await asyncio.to_thread(self.beginning.keep_good):
                get_logger().info(Event.CONFIGURATION_KEPT, path=str(self.beginning.config))
