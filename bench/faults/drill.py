"""What a drill is: a fault, a way to bring it about, and a judgement by ledgers.

    DRILL = Drill(
        id="F01",                      # the name it is chosen by, `--only F01`
        name="agent killed while ingesting",
        run=drill,                     # async (DrillContext) -> DrillResult
        needs=("mosquitto",),          # programs; one that is missing fails the drill, it never skips
        root=False,                    # True: needs root (mounts, cgroups, network rules)
        ci_limit_s=90, soak_limit_s=900,   # the deadline of the whole drill
    )

    async def drill(context: DrillContext) -> DrillResult:
        result = DrillResult()
        async with field(context) as site:                      # bench/faults/field.py
            await site.sensors(rate=1500)
            for _ in context.each(context.repeats):              # 5 in ci, 100 in soak
                await asyncio.sleep(context.rng.uniform(0.3, 0.6))
                await site.kill_agent()                          # keeps what it measured, then SIGKILL
                await site.agent.start()
            await site.enough(context.pick(ci=20_000, soak=100_000))  # acknowledged; sensors stop
            result.balance = await site.settle(timeout_s=30)     # waits until nothing waits, judges
            result.lag = await site.loop_lag()
        result.figures["recovery_s"] = recovery_s
        return result.within(recovery_s, 5, "recovery")     # or result.expect(holds, "what is wrong")

List `DRILL` in `bench/faults/registry.py`. A drill passes when it returned no fault; an exception or the
deadline fails it, with the reason. `expect` does not stop the drill: one run tells everything that is
wrong. The balance and the lag are judged without being asked (`verdict`). Random choices come from
`context.rng` alone, so that a run with the same seed makes them again.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from bench.faults.lag import LagFigures
from bench.faults.ledger import Balance

MAX_LAG_MS = 50.0
_T = TypeVar("_T")


class Tier(StrEnum):
    """How much is done."""

    CI = "ci"
    """Few repeats, all drills within a quarter of an hour on two cores."""
    SOAK = "soak"
    """The counts that the promises name."""


@dataclass(frozen=True, slots=True)
class DrillContext:
    """What a drill is given: an empty folder of its own, chance, and how much to do."""

    folder: Path
    rng: random.Random
    tier: Tier = Tier.CI
    say: Callable[[str], None] = lambda _: None
    """Shows progress to a person; nothing is written without a terminal."""

    @property
    def repeats(self) -> int:
        """Kills or cuts: 5, or 100 in a soak."""
        return self.pick(ci=5, soak=100)

    def pick(self, *, ci: _T, soak: _T) -> _T:
        """The value for this tier."""
        return soak if self.tier is Tier.SOAK else ci

    def each(self, count: int) -> Iterator[int]:
        """0 … count-1, shown as progress."""
        for number in range(count):
            self.say(f"{number + 1} of {count}")
            yield number


@dataclass(slots=True)
class DrillResult:
    """What a drill found; filled in as it goes on."""

    repeats: int = 0
    balance: Balance | None = None
    """The ledgers; a drill without readings leaves it out."""
    lag: LagFigures | None = None
    """Every drill that runs an agent fills it in."""
    figures: dict[str, float | int | str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """What was not as promised, a sentence each; none means passed."""

    def expect(self, holds: object, otherwise: str) -> None:
        """Notes a fault unless the first argument is true."""
        if not holds:
            self.faults.append(otherwise)

    def within(self, value: float, most: float, what: str) -> DrillResult:
        """Notes a fault when so many seconds are more than allowed; returns itself."""
        self.expect(value <= most, f"{what} took {value:.1f} s, allowed are {most:g}")
        return self

    def verdict(self) -> list[str]:
        """All faults: the drill's own, those of the balance, and a held-up event loop."""
        found = list(self.faults)
        if self.balance is not None:
            found += self.balance.faults()
        if self.lag is not None:
            found += self.lag.faults(MAX_LAG_MS)
        return found


@dataclass(frozen=True, slots=True)
class Drill:
    """One entry of the programme."""

    id: str
    name: str
    run: Callable[[DrillContext], Awaitable[DrillResult]]
    needs: tuple[str, ...] = ()
    root: bool = False
    ci_limit_s: float = 120.0
    soak_limit_s: float = 1200.0

    def limit_s(self, tier: Tier) -> float:
        """The deadline of the whole drill."""
        return self.soak_limit_s if tier is Tier.SOAK else self.ci_limit_s
