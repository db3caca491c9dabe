"""A whole rehearsal: scratch installation, the backlog that was found, the drills, and the sheet's content."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contract.status import Lane
from edge_agent.clock import SystemClock
from edge_agent.errors import EdgeError
from edge_agent.observe.logs import configure_logging
from edge_agent.outbox.store import Outbox
from edge_agent.rehearse.children import python
from edge_agent.rehearse.drilling import STEADY_S, Drill, conduct, settled_before
from edge_agent.rehearse.hub_side import Holdings
from edge_agent.rehearse.installation import Installation, NotReached
from edge_agent.rehearse.judging import DrillResult
from edge_agent.rehearse.payloads import Readings
from edge_agent.rehearse.scratch import Copy, sample_settings
from edge_agent.rehearse.sensors import Sensors
from edge_agent.rehearse.servers import Choice, find_programs
from edge_agent.settings import load_settings

LEAST_READINGS: Final = 1000
USUAL_READINGS: Final = 2000
MOST_READINGS: Final = 200_000
_FIRST_READING_S: Final = 20.0
_SEED: Final = 1

Say = Callable[[str], None]
"""Tells a person how far it is."""


class Interrupted(Exception):
    """A person ended the rehearsal; everything was stopped in order."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for on the command line."""

    config: Path | None
    drills: Sequence[Drill]
    readings: int = USUAL_READINGS
    servers: Choice = Choice.AUTO
    keep: bool = False
    patience_s: float = STEADY_S
    """How long a drill waits for what is still missing."""
    launcher: Sequence[str] = ()
    """A command in place of the agent's own, for a test of the drills themselves."""


@dataclass(slots=True)
class Sheet:
    """What a rehearsal came to."""

    device: str
    servers: dict[str, str]
    notes: list[str]
    copy: Copy
    backlog: dict[str, int] = field(default_factory=dict)
    drills: list[DrillResult] = field(default_factory=list)
    seconds: float = 0.0
    folder: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether every drill passed, and what the copied outbox held arrived."""
        return all(drill.passed for drill in self.drills) and not self.backlog.get("lost", 0)


async def rehearse(wanted: Wanted, *, say: Say) -> Sheet:
    """Runs the drills; raises ConfigurationError when it cannot begin, Interrupted after Ctrl-C."""
    configure_logging("error", "console")
    folder = await asyncio.to_thread(_make_folder)
    task = asyncio.create_task(_rehearse(wanted, folder, say), name="rehearsal")
    try:
        sheet = await _or_interrupted(task)
        sheet.folder = folder if wanted.keep else None
        return sheet
    finally:
        if not wanted.keep:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _or_interrupted(task: asyncio.Task[Sheet]) -> Sheet:
    """The sheet, or Interrupted once everything has stopped after SIGINT or SIGTERM."""
    loop = asyncio.get_running_loop()
    asked: list[int] = []

    def interrupt(number: int) -> None:
        asked.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt, number)
    try:
        return await task
    except asyncio.CancelledError:
        if asked:
            raise Interrupted from None
        raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _rehearse(wanted: Wanted, folder: Path, say: Say) -> Sheet:
    begin_s = time.monotonic()
    if wanted.config is None:
        settings = await asyncio.to_thread(sample_settings, folder)
    else:
        settings = await asyncio.to_thread(load_settings, wanted.config)
    readings = Readings(settings)
    programs = await asyncio.to_thread(find_programs, wanted.servers)
    real_data = settings.data_dir if wanted.config else None
    installation = await asyncio.to_thread(
        lambda: Installation(
            settings,
            folder=folder,
            programs=programs,
            real_data=real_data,
            launcher=wanted.launcher or python("launcher"),
        )
    )
    sheet = Sheet(
        settings.device.name,
        programs.names(),
        [*installation.notes, *readings.left_out],
        installation.copy,
    )
    say("starting servers and agent")
    owed = await _owed(installation)
    async with installation, Sensors(readings, port=installation.broker_port) as sensors:
        await installation.agent.start()
        await _first_readings(installation, sensors, topics=len(readings.topics))
        if owed:
            say(f"draining the {owed} readings that the copied outbox owes")
        sheet.backlog = await _backlog(installation, owed=owed)
        held: Holdings | None = None
        for number, drill in enumerate(wanted.drills, 1):
            say(f"{number}/{len(wanted.drills)} {drill.name}: {drill.does}")
            result, held = await conduct(
                drill,
                installation,
                sensors,
                readings=wanted.readings,
                seed=_SEED,
                before=held,
                patience_s=wanted.patience_s,
            )
            sheet.drills.append(result)
    sheet.seconds = round(time.monotonic() - begin_s, 1)
    return sheet


async def _owed(installation: Installation) -> int:
    """Readings in the copied outbox that the real hub's database does not hold; told before the agent starts."""
    if not installation.copy.files:
        return 0
    try:
        outbox = await Outbox.open(
            installation.outbox_dir, settings=installation.settings.outbox, clock=SystemClock()
        )
    except EdgeError:
        return 0  # the agent will salvage it
    try:
        return await _unsent(outbox)
    finally:
        await outbox.close()


async def _unsent(outbox: Outbox) -> int:
    """Readings beyond the watermark."""
    after = outbox.state().lanes[Lane.TEL].applied
    count = 0
    while rows := await outbox.read(Lane.TEL, after=after, max_bytes=2**20, max_rows=4096):
        count += sum(row.readings for row in rows)
        after = rows[-1].seq
    return count


async def _first_readings(installation: Installation, sensors: Sensors, *, topics: int) -> None:
    """Returns once readings of ours arrive at the agent: from then on the broker keeps them for it."""
    deadline_s = time.monotonic() + _FIRST_READING_S
    while time.monotonic() < deadline_s:
        await sensors.send(min(topics, 64), per_s=500)
        await asyncio.sleep(0.2)
        if (await installation.status()).readings:
            return
    raise NotReached(
        "the agent takes none of the readings made for it: look at its log with --keep, and at "
        "`edge-agent decode` with a payload of yours"
    )


async def _backlog(installation: Installation, *, owed: int) -> dict[str, int]:
    """What became of the readings that the copied outbox owed to the real hub."""
    await settled_before(installation)
    if not owed:
        return {}
    held = await installation.hub.holdings()
    return {"readings": owed, **_share(held, owed)}


def _share(held: Holdings, owed: int) -> dict[str, int]:
    stored = sum(held.readings.values())
    return {"stored": min(stored, owed), "lost": max(0, owed - stored - held.gap_readings)}


def _make_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="skerry-rehearsal-"))
