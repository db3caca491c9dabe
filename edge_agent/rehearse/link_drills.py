"""Drills of the way to the hub: cut, half open, and a server that is there and does nothing."""

from __future__ import annotations

from typing import Final

from contract.status import Health
from edge_agent.errors import EdgeError
from edge_agent.rehearse.drilling import Drill, DrillRun
from edge_agent.rehearse.installation import Status

_NOTICED_S: Final = 20.0


async def _cut(run: DrillRun) -> None:
    await run.load(0.25)
    await run.begin_fault()
    await run.installation.link.cut()
    await run.load(0.5)
    await _noticed(run)
    await run.end_fault()
    await run.installation.link.mend()
    await run.recover()
    await run.load(0.25)


async def _half_open(run: DrillRun) -> None:
    await run.load(0.25)
    await run.begin_fault()
    run.installation.link.half_open()
    await run.load(0.5)
    await _noticed(run)
    await run.end_fault()
    run.figures["swallowed_bytes"] = run.installation.link.swallowed_bytes
    await run.installation.link.mend()
    await run.recover()
    await run.load(0.25)


async def _frozen(run: DrillRun) -> None:
    await run.load(0.25)
    await run.begin_fault()
    run.installation.server.freeze()
    await run.load(0.5)
    await _noticed(run)
    await run.end_fault()
    run.installation.server.thaw()
    await run.recover()
    await run.load(0.25)


async def _noticed(run: DrillRun) -> None:
    """The fault lasts until the agent knows of it: then everything of the way back is exercised."""

    def away(status: Status) -> bool:
        return status.health != Health.ONLINE

    try:
        await run.installation.status_when(away, timeout_s=_NOTICED_S, what="the agent notices")
    except EdgeError as error:
        run.why.append(str(error))


LINK_CUT: Final = Drill("link_cut", "connections to the hub break, new ones are refused", _cut)
HALF_OPEN: Final = Drill("half_open", "connections stay, and no byte arrives", _half_open)
SERVER_FROZEN: Final = Drill("server_frozen", "the hub's server stops, connections stay", _frozen)
