"""What a run of the programme says: JSON for machines, a sheet for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.faults.drill import Drill, DrillResult, Tier


@dataclass(frozen=True, slots=True)
class Entry:
    """One drill that was run, or could not be."""

    drill: Drill
    result: DrillResult
    faults: tuple[str, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.faults

    def as_json(self) -> dict[str, Any]:
        """The drill's object in the report."""
        shown: dict[str, Any] = {
            "id": self.drill.id,
            "name": self.drill.name,
            "pass": self.passed,
            "repeats": self.result.repeats,
        }
        if (balance := self.result.balance) is not None:
            shown |= {
                "readings": balance.acknowledged,
                "stored": balance.stored,
                "lost": balance.lost,
                "duplicate": balance.duplicate,
                "phantom": balance.phantom,
                "declared": balance.declared,
                "missing": balance.missing,
                "order_errors": balance.order_errors,
                "holes": balance.holes,
            }
        if (lag := self.result.lag) is not None:
            shown |= {
                "loop_lag_p99_ms": round(lag.p99_ms, 1),
                "control_lag_p99_ms": round(lag.control_p99_ms, 1),
                "cpu_wait_p99_ms": round(lag.cpu_wait_p99_ms, 1),
            }
        return {
            **shown,
            "figures": self.result.figures,
            "seconds": round(self.seconds, 1),
            "why": "; ".join(self.faults),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run; the seed makes it again."""

    tier: Tier
    seed: int
    entries: tuple[Entry, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every drill passed, and there was one."""
        return bool(self.entries) and all(entry.passed for entry in self.entries)

    def as_json(self) -> dict[str, Any]:
        """The report as it is printed."""
        return {
            "tier": self.tier.value,
            "seed": self.seed,
            "ok": self.ok,
            "drills": [entry.as_json() for entry in self.entries],
            "seconds": round(self.seconds, 1),
        }

    def lines(self) -> list[str]:
        """The sheet: a line a drill, what was wrong, the slowest drills, and how to run it again."""
        shown = [line for entry in self.entries for line in _sheet(entry)]
        slowest = sorted(self.entries, key=lambda entry: -entry.seconds)[:5]
        times = ", ".join(f"{entry.drill.id} {entry.seconds:.0f} s" for entry in slowest)
        failed = [entry.drill.id for entry in self.entries if not entry.passed]
        shown.append(f"{len(self.entries)} drills in {self.seconds:.0f} s; slowest: {times}")
        again = f"--tier {self.tier} --seed {self.seed}"
        if failed:
            shown.append(
                f"FAILED: {', '.join(failed)}; again: python -m bench.faults {again} "
                f"--only {','.join(failed)}"
            )
        else:
            shown.append(f"all passed; seed {self.seed}")
        return shown


def _sheet(entry: Entry) -> list[str]:
    mark = "pass" if entry.passed else "FAIL"
    line = f"{mark}  {entry.drill.id}  {entry.drill.name:<42} {entry.seconds:6.1f} s"
    if (balance := entry.result.balance) is not None:
        line += (
            f"  {balance.acknowledged:>9,} readings, lost {balance.lost}, "
            f"twice {balance.duplicate}, declared {balance.declared}"
        )
    if (lag := entry.result.lag) is not None:
        line += f", lag p99 {lag.p99_ms:.0f} ms (machine {lag.cpu_wait_p99_ms:.0f})"
    figures = ", ".join(f"{name} {value}" for name, value in entry.result.figures.items())
    return [
        line,
        *([f"            {figures}"] if figures else []),
        *(f"            {fault}" for fault in entry.faults),
    ]
