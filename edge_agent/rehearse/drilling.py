"""How a drill is conducted: a steady start, load, a fault under load, its end, and the account of it all."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from edge_agent.errors import EdgeError
from edge_agent.observe.latency import LatencyBuckets
from edge_agent.rehearse.hub_side import Holdings
from edge_agent.rehearse.installation import Installation, NotReached, Status
from edge_agent.rehearse.judging import Account, DrillResult, objections, settle
from edge_agent.rehearse.sensors import Sensors

PER_S: Final = 500.0
STEADY_S: Final = 45.0
_MISSES_SHARE: Final = 0.05
_POLL_S: Final = 0.1
_COMPARE_AFTER_S: Final = 1.5
_BUSY_MS: Final = 50.0
"""A machine on which a process that does nothing is woken this late proves nothing about deadlines."""
_LAG_EVERY_S: Final = 0.02
_SURE: Final = 5.0
"""Fewer expected verdicts may be none: windows fill slowly where streams are many."""


@dataclass(slots=True)
class Observed:
    """What the agent decided while the fault lasted, over all its starts."""

    readings: int = 0
    verdicts: int = 0
    expected: float = 0.0
    """Verdicts that as many readings gave before."""
    misses: int = 0
    p99_ms: float = 0.0
    lag_p99_ms: float = 0.0
    _from: Status | None = None

    def begin(self, status: Status | None) -> None:
        """Counts from here on."""
        self._from = status

    def end(self, status: Status | None) -> None:
        """Counts up to here; what a killed agent did after its last words is not counted."""
        if status is None:
            return
        before = self._from
        readings = status.readings - (before.readings if before else 0)
        self.readings += readings
        if before is not None and before.readings:
            self.expected += readings * before.verdicts / before.readings
        self.verdicts += status.verdicts - (before.verdicts if before else 0)
        self.misses += status.misses - (before.misses if before else 0)
        self.p99_ms = max(self.p99_ms, status.verdict_p99_ms)
        self.lag_p99_ms = max(self.lag_p99_ms, status.loop_lag_p99_ms)
        self._from = None


@dataclass(slots=True)
class DrillRun:
    """One drill under way: what a drill's own code works with."""

    installation: Installation
    sensors: Sensors
    readings: int
    rng: random.Random
    before: Holdings
    counted: int
    """Readings that the hub had stored before."""
    patience_s: float = STEADY_S
    observed: Observed = field(default_factory=Observed)
    figures: dict[str, float | int | bool | str | None] = field(default_factory=dict)
    why: list[str] = field(default_factory=list)
    recovery_s: float | None = None
    planted: int = 0
    """Readings that the drill itself put into the outbox, to be declared as given up."""
    deciding: bool = False
    """Whether the agent lived through the fault, so that its deadlines count."""
    at_end: list[Callable[[Holdings], None]] = field(default_factory=list)
    """What looks at the drill's own share of the hub's holdings, once all is steady."""
    _removed_s: float = 0.0
    _declared: int = 0

    async def load(self, share: float, *, per_s: float = PER_S) -> None:
        """Sensors publish this share of the drill's readings."""
        await self.sensors.send(max(1, round(self.readings * share)), per_s=per_s)

    async def begin_fault(self) -> None:
        """The fault comes now."""
        self.observed.begin(await self.installation.status_or_none())

    async def end_fault(self, *, deciding: bool = True, at_s: float | None = None) -> None:
        """The fault goes now, or went `at_s`; `deciding` says that verdicts must have gone on meanwhile."""
        self.observed.end(await self.installation.status_or_none())
        self.deciding = deciding
        if deciding and not self.observed.readings:
            self.why.append("no reading was taken while the fault lasted")
        elif deciding and not self.observed.verdicts and self.observed.expected >= _SURE:
            self.why.append("no verdict was given while the fault lasted")
        self._removed_s = time.monotonic() if at_s is None else at_s

    async def recover(self) -> None:
        """Waits until all that was acknowledged is stored; sets `recovery_s`."""
        self.recovery_s = round(await self.steady() - self._removed_s, 2)

    async def steady(self) -> float:
        """The moment at which all that was acknowledged was stored or declared; raises NotReached.

        The hub's count is cheap and usually tells; where it is short, its readings are compared.
        """
        deadline_s = time.monotonic() + self.patience_s
        look_s = 0.0
        missing: int | str = "an unknown number of"
        while True:
            status = await self.installation.status_or_none()
            moment_s = time.monotonic()
            if status is not None and status.waiting == 0:
                short = len(self.sensors.acknowledged) + self.counted
                short -= await self.installation.hub.count()
                if short <= self._declared:
                    return moment_s
                if look_s and moment_s >= look_s:
                    held = (await self.installation.hub.holdings()).since(self.before)
                    missing = len(self.sensors.acknowledged - held.readings.keys())
                    if missing <= held.gap_readings:
                        self._declared = short
                        return moment_s
                    look_s = 0.0
                look_s = look_s or moment_s + _COMPARE_AFTER_S
            if time.monotonic() > deadline_s:
                limit = f"{self.patience_s:g} s"
                raise NotReached(f"not steady after {limit}: {missing} readings are not stored")
            await asyncio.sleep(_POLL_S)


DrillBody = Callable[[DrillRun], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Drill:
    """A drill: its name, what it does to the installation, and how."""

    name: str
    does: str
    body: DrillBody


async def conduct(
    drill: Drill,
    installation: Installation,
    sensors: Sensors,
    *,
    readings: int,
    seed: int,
    before: Holdings | None = None,
    patience_s: float = STEADY_S,
) -> tuple[DrillResult, Holdings | None]:
    """Runs one drill on a steady installation and judges it; a fault that stays is part of the result.

    `before` is what the hub held at the end of the drill before, as this one returns it if all is steady.
    """
    sensors.forget()
    begin_s = time.monotonic()
    run: DrillRun | None = None
    trouble: list[str] = []
    lag = LatencyBuckets()
    watch = asyncio.create_task(_watch_lag(lag), name="machine lag")
    try:
        await settled_before(installation)
        run = DrillRun(
            installation,
            sensors,
            readings,
            random.Random(f"{seed}:{drill.name}"),  # noqa: S311 - replayable on purpose
            before or await installation.hub.holdings(),
            await installation.hub.count(),
            patience_s,
        )
        await drill.body(run)
        await run.steady()
    except (EdgeError, OSError) as error:
        trouble.append(str(error))
    finally:
        watch.cancel()
        await heal(installation)
    if run is None:
        return DrillResult(drill.name, 0, 0, 0, None, tuple(trouble)), None
    after: Holdings | None = None
    held = Holdings()
    try:
        after = await installation.hub.holdings()
        held = after.since(run.before)
        for look in run.at_end:
            look(held)
    except EdgeError as error:
        trouble.append(str(error))
    account = settle(
        sent=sensors.sent,
        acknowledged=sensors.acknowledged,
        stored=held.readings,
        declared=held.gap_readings - run.planted,
    )
    result = _result(drill, run, account, trouble, lag=lag, seconds=time.monotonic() - begin_s)
    return result, after if result.passed else None


async def _watch_lag(lag: LatencyBuckets) -> None:
    """How late this process is woken: what is not the agent's fault."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + _LAG_EVERY_S
        await asyncio.sleep(_LAG_EVERY_S)
        lag.add((loop.time() - due_s) * 1e3)


async def settled_before(installation: Installation) -> None:
    """Returns once the agent runs and owes nothing; raises EdgeError."""
    if not installation.agent.running:
        await installation.agent.start()
    await installation.status_when(
        lambda status: status.waiting == 0 and not status.fault,
        timeout_s=STEADY_S,
        what="before the drill all that waits is stored",
    )


async def heal(installation: Installation) -> None:
    """Takes every fault back, whatever the drill came to."""
    installation.server.thaw()
    installation.shift_clock(0.0)
    await installation.link.mend()


def _result(
    drill: Drill,
    run: DrillRun,
    account: Account,
    trouble: list[str],
    *,
    lag: LatencyBuckets,
    seconds: float,
) -> DrillResult:
    observed = run.observed
    why = [*trouble, *run.why, *objections(account, at_least=run.readings)]
    machine_lag_ms = lag.quantile_ms(0.99)
    late = observed.misses > _MISSES_SHARE * max(observed.verdicts, 1)
    if run.deciding and late and machine_lag_ms <= _BUSY_MS:
        why.append(f"{observed.misses} of {observed.verdicts} verdicts missed their deadline")
    return DrillResult(
        name=drill.name,
        readings=account.acknowledged,
        lost=account.lost,
        duplicate=account.duplicate,
        recovery_s=run.recovery_s,
        why=tuple(why),
        figures={
            "stored": account.stored,
            "declared": account.declared,
            "phantom": account.phantom,
            "verdicts": observed.verdicts,
            "deadline_misses": observed.misses,
            "verdict_p99_ms": round(observed.p99_ms, 2),
            "loop_lag_p99_ms": round(observed.lag_p99_ms, 2),
            "machine_lag_p99_ms": round(machine_lag_ms, 2),
            **run.figures,
            "seconds": round(seconds, 1),
        },
    )
