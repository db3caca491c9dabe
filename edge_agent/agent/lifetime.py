"""The life of the service: configuration → models → outbox → sources → link, and back.

An outbox that cannot be opened does not keep the device from answering: a volatile agent runs until it
can, then the whole one takes over in the same process.
"""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

from edge_agent.agent.assembly import Agent
from edge_agent.agent.beginning import Beginning
from edge_agent.agent.ground import Ground, Keeping
from edge_agent.agent.opening import Opening
from edge_agent.agent.starts import Phase
from edge_agent.agent.subscriptions import read_subscriptions
from edge_agent.agent.threads import reserve_threads
from edge_agent.agent.volatile import VolatileStore
from edge_agent.clock import SystemClock
from edge_agent.errors import ConfigurationError, EdgeError, StoreError
from edge_agent.inference.load import Loaded, load_scorers
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.observe.loop_errors import tell_loop_errors
from edge_agent.observe.sd_notify import Supervisor
from edge_agent.outbox.store import Outbox
from edge_agent.settings import Settings, read_service_environment
from edge_agent.types import Clock, Recovery
from edge_agent.version import VERSION

STEP_S = 120.0
"""What systemd is asked to grant each step of the start; an ordinary one takes a second in all."""


class AgentFailed(EdgeError):
    """A part of the agent died; the process ends, so that its supervisor starts it again whole."""


async def run_agent(
    settings: Settings,
    *,
    config: Path,
    clock: Clock | None = None,
    beginning: Beginning | None = None,
) -> None:
    """Runs the agent until SIGTERM or SIGINT; raises EdgeError when it cannot start.

    `clock` is what every part takes the time from; a rehearsal brings one that jumps. `beginning` says
    what this start leaves out; without one it leaves out nothing, and nothing is noted of it.
    """
    log = get_logger(device=settings.device.name)
    tell_loop_errors(asyncio.get_running_loop())
    log.info(Event.AGENT_STARTED, version=VERSION, config=str(config), pid=os.getpid())
    service = read_service_environment()
    supervisor = Supervisor(service.notify_socket)
    stop = _stop_by_signal(supervisor)
    start = beginning or Beginning(settings)
    _tell_safe_mode(start)
    try:
        await reserve_threads()
        ground = Ground(
            settings=settings,
            loaded=await _load_models(start, supervisor),
            clock=clock or SystemClock(),
            supervisor=supervisor,
            watchdog_s=service.watchdog_s,
            beginning=start,
        )
        await _live(ground, stop)
    except ExceptionGroup as failed:
        log.exception(Event.AGENT_FAILED)
        causes = "; ".join(f"{type(each).__name__}: {each}" for each in failed.exceptions)
        await asyncio.to_thread(start.log.failed, causes, phase=_blamed(failed.exceptions))
        raise AgentFailed(f"the agent stopped because a part of it failed: {causes}") from failed
    except Exception as failed:
        why = f"{type(failed).__name__}: {failed}"
        await asyncio.to_thread(start.log.failed, why, phase=_blamed([failed]))
        raise
    log.info(Event.AGENT_STOPPED)


def _stop_by_signal(supervisor: Supervisor) -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()

    def ask() -> None:
        stop.set()
        supervisor.stopping()
        get_logger().info(Event.AGENT_STOPPING)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    return stop


async def _load_models(start: Beginning, supervisor: Supervisor) -> Loaded:
    log = get_logger(device=start.settings.device.name)
    supervisor.starting("starting: models are loaded", most_s=STEP_S)
    mark = partial(start.log.mark, Phase.MODEL)
    loaded = await asyncio.to_thread(
        load_scorers, start.settings, left_out=start.left_out, begin=mark
    )
    for path, why in loaded.failures.items():
        log.error(Event.MODEL_REJECTED, path=path, why=why)
    for scorer in loaded.scorers.values():
        log.info(Event.MODEL_LOADED, model=scorer.family, release=scorer.release)
    supervisor.starting("starting: the outbox is opened", most_s=STEP_S)
    return loaded


async def _live(ground: Ground, stop: asyncio.Event) -> None:
    """Until `stop`: the whole agent, and before it a volatile one where there is no outbox yet."""
    await ground.mark(Phase.OUTBOX)
    opening = Opening(ground.settings, clock=ground.clock, spool=ground.beginning.plan.spool)
    outbox = await opening.first()
    if outbox is None:
        outbox = await _bridge(ground, opening, stop)
    if outbox is None:
        await ground.mark(Phase.STOPPED)
        return
    try:
        recovery = await outbox.recover()
        past = await asyncio.to_thread(read_subscriptions, ground.settings.data_dir)
        agent = Agent(ground, outbox=outbox, recovery=recovery, past=past)
        await agent.run(stop)
    finally:
        await outbox.close()
    if agent.decided:
        await ground.ran_well(Phase.STOPPED)
    else:
        await ground.mark(Phase.STOPPED)


async def _bridge(ground: Ground, opening: Opening, stop: asyncio.Event) -> Outbox | None:
    """Runs a volatile agent until the outbox can be opened, and returns it; None when `stop` came."""
    store = VolatileStore(lambda: opening.why, quota_bytes=ground.settings.outbox.max_bytes)
    agent = Agent(
        ground,
        outbox=store,
        recovery=Recovery(epoch=store.epoch),
        past={},
        keeping=Keeping.VOLATILE,
    )
    end = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        stopping = group.create_task(stop.wait(), name="stop")
        opened = group.create_task(opening.later(), name="opening")
        running = group.create_task(agent.run(end), name="volatile-agent")
        await asyncio.wait({stopping, opened, running}, return_when=asyncio.FIRST_COMPLETED)
        end.set()
        stopping.cancel()
        if not opened.done():
            opened.cancel()
    if stop.is_set():
        await opening.cancel()
    if not opened.done() or opened.cancelled():
        return None
    outbox = opened.result()
    if stop.is_set():
        await outbox.close()
        return None
    return outbox


def _tell_safe_mode(start: Beginning) -> None:
    log = get_logger(device=start.settings.device.name)
    if start.log.left is not None:
        log.info(Event.SAFE_MODE_LEFT, was=start.log.left.reasons)
    if start.plan.careful:
        log.error(
            Event.SAFE_MODE,
            replaced=start.plan.without,
            why=start.plan.why,
        )


def _blamed(errors: tuple[Exception, ...] | list[Exception]) -> Phase | None:
    """What an error says about where it comes from; None where it says nothing."""
    if any(isinstance(each, ConfigurationError) for each in errors):
        return Phase.CONFIGURATION
    if any(isinstance(each, StoreError) for each in errors):
        return Phase.OUTBOX
    return None
