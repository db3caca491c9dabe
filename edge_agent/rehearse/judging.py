"""What a drill proved: three ledgers compared, reading by reading. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edge_agent.rehearse.payloads import Key


@dataclass(frozen=True, slots=True)
class Account:
    """The readings of a drill.

    `lost`: acknowledged to a sensor, neither stored nor declared as given up. Below 0: more was declared
    than is missing. `duplicate`: stored more than once; `phantom`: stored, and never sent.
    """

    acknowledged: int
    stored: int
    missing: int
    declared: int
    duplicate: int
    phantom: int

    @property
    def lost(self) -> int:
        """Readings that the installation owes."""
        return self.missing - self.declared


def settle(
    *, sent: set[Key], acknowledged: set[Key], stored: Mapping[Key, int], declared: int
) -> Account:
    """Compares what sensors sent, what was acknowledged to them, and what the hub stored since."""
    return Account(
        acknowledged=len(acknowledged),
        stored=sum(1 for key in stored if key in sent),
        missing=len(acknowledged - stored.keys()),
        declared=declared,
        duplicate=sum(count - 1 for key, count in stored.items() if key in sent),
        phantom=sum(count for key, count in stored.items() if key not in sent),
    )


@dataclass(frozen=True, slots=True)
class DrillResult:
    """The line of one drill on the sheet; `why` is empty when it passed."""

    name: str
    readings: int
    lost: int
    duplicate: int
    recovery_s: float | None
    why: tuple[str, ...] = ()
    figures: Mapping[str, float | int | bool | str | None] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.why


def objections(account: Account, *, at_least: int) -> list[str]:
    """What speaks against a drill whatever its fault was."""
    found: list[str] = []
    if account.acknowledged < at_least:
        found.append(f"only {account.acknowledged} readings were acknowledged; {at_least} are due")
    if account.lost > 0:
        found.append(
            f"{account.lost} acknowledged readings are neither stored nor declared as given up"
        )
    if account.lost < 0:
        found.append(f"{-account.lost} more readings are declared as given up than are missing")
    if account.duplicate:
        found.append(f"{account.duplicate} readings are stored twice")
    if account.phantom:
        found.append(f"{account.phantom} readings are stored that no sensor sent")
    return found
