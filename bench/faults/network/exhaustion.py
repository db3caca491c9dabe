"""F23: a process gets no descriptor, or no thread, while its connections break.

Agent and hub run with 64 descriptors. Strangers hold their health ports, then the kernel gives not one
descriptor more, then not one thread; each time the process loses its connections and cannot open new
ones. Nothing crashes, and once there is room everything is back within ten seconds.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from bench.faults.network.broker_link import broker_link
from bench.faults.network.partition import applied_rows
from bench.ports import HOST
from bench.stack import BIN, Agent, Hub
from edge_agent.errors import EdgeError
from edge_agent.rehearse.proxy import Proxy

DESCRIPTORS: Final = 64
RATE_PER_S: Final = 300.0
BACK_S: Final = 10.0
_LIMIT: Final = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")
_FEWER: Final = 3
"""A limit below what is open already: what is open stays, and nothing new can be opened."""
_PIDS: Final = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
_MARK: Final = "skerry-drill-"
_POLL_S: Final = 0.1
_STRANGER_S: Final = 0.5


async def exhaustion(context: DrillContext) -> DrillResult:
    """Agent and hub, each without descriptors and without threads."""
    result = DrillResult()
    hub_command = (*_LIMIT, str(BIN / "cloud-hub"))
    async with (
        field(
            context, distant=True, agent_prefix=_LIMIT, hub_command=hub_command, begin=False
        ) as site,
        broker_link(site) as way,
    ):
        await site.start()
        pids = (site.agent.pid, site.hub.pid)
        await site.sensors(rate=RATE_PER_S)
        await _back_s(site)
        for process in (site.agent, site.hub):
            for name, fault in (("descriptors", no_descriptors), ("threads", no_threads)):
                context.say(f"{process.name} without {name}")
                await _one(
                    context,
                    site=site,
                    way=way,
                    result=result,
                    process=process,
                    name=name,
                    fault=fault,
                )
        alive = site.agent.is_running() and site.hub.is_running()
        result.expect(alive and pids == (site.agent.pid, site.hub.pid), "a process ended")
        result.expect(site.sending, "the sensors were done before the last fault")
        await site.enough(0)
        result.balance = await site.settle(timeout_s=60)
        result.lag = await site.loop_lag()
    return result


async def _one(
    context: DrillContext,
    *,
    site: Site,
    way: Proxy,
    result: DrillResult,
    process: Agent | Hub,
    name: str,
    fault: Callable[[int], AbstractAsyncContextManager[None]],
) -> None:
    async with strangers(process.http_port), fault(process.pid):
        await _break(site, way, process)
        await asyncio.sleep(context.pick(ci=4.0, soak=8.0))
    back_s = await _back_s(site)
    result.repeats += 1
    result.figures[f"{process.name}_{name}_back_s"] = round(back_s, 2)
    result.within(back_s, BACK_S, f"the {process.name}'s way back without {name}")


async def _break(site: Site, way: Proxy, process: Agent | Hub) -> None:
    """Ends the connections of the process, to come back if it can."""
    if process is site.hub:
        await site.server.restart()
        return
    assert site.link is not None
    way.reset()
    site.link.reset()


async def _back_s(site: Site) -> float:
    """Seconds from now until a row that is made from now on is in the hub's database."""
    began_s = time.monotonic()
    goal: int | None = None
    async with asyncio.timeout(6 * BACK_S):
        while goal is None or await asyncio.to_thread(applied_rows, site) < goal:
            if goal is None:
                with suppress(EdgeError):
                    goal = (await site.status())["outbox"]["lanes"]["tel"]["next_seq"]
            await asyncio.sleep(_POLL_S)
    return time.monotonic() - began_s


@asynccontextmanager
async def strangers(port: int) -> AsyncIterator[None]:
    """Connections that say nothing, more than the process has descriptors for."""
    async with AsyncExitStack() as stack:
        with suppress(OSError, TimeoutError):
            for _ in range(2 * DESCRIPTORS):
                async with asyncio.timeout(_STRANGER_S):
                    _, writer = await asyncio.open_connection(HOST, port)
                stack.callback(writer.transport.abort)
        yield


@asynccontextmanager
async def no_descriptors(pid: int) -> AsyncIterator[None]:
    """The process may open nothing; what it has open stays so."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (_FEWER, before[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it died of it; the drill will say so
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@asynccontextmanager
async def no_threads(pid: int) -> AsyncIterator[None]:
    """The process may start no thread; those it has go on."""
    root = next(path for path in _PIDS if (path / "cgroup.procs").exists())
    group = root / f"{_MARK}{os.getpid()}"
    await asyncio.to_thread(_confine, group, pid)
    try:
        yield
    finally:
        await asyncio.shield(asyncio.to_thread(_release, group, pid))


def _confine(group: Path, pid: int) -> None:
    for orphan in group.parent.glob(f"{_MARK}*"):  # of drills that were killed
        if not Path("/proc", orphan.name.removeprefix(_MARK)).exists():
            with suppress(OSError):  # somebody still lives there
                orphan.rmdir()
    group.mkdir(exist_ok=True)
    (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
    threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    (group / "pids.max").write_text(str(threads), encoding="ascii")


def _release(group: Path, pid: int) -> None:
    (group / "pids.max").write_text("max", encoding="ascii")
    with suppress(ProcessLookupError):
        (group.parent / "cgroup.procs").write_text(str(pid), encoding="ascii")
    group.rmdir()


DRILL = Drill(
    id="F23",
    name="no descriptors, no threads",
    run=exhaustion,
    needs=("mosquitto", "nats-server", "prlimit"),
    root=True,
)
