"""Packet filter rules on loopback for single ports; every rule is taken back, whatever happens.

Each rule carries the process id of its maker, so that those of a maker that was killed are found and
taken away by the next drill.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

from bench.faults.running import which

_MARK: Final = "skerry-drill-"
_LIMIT_S: Final = 10.0


class Fate(StrEnum):
    """What becomes of a packet."""

    DROP = "DROP"
    """It is lost."""
    RESET = "REJECT --reject-with tcp-reset"
    """Its sender is told that there is no such connection."""


class Side(StrEnum):
    """Which packets of a port."""

    TO = "--dport"
    FROM = "--sport"


class RuleError(RuntimeError):
    """The kernel did not take a rule."""


@asynccontextmanager
async def filtered(
    port: int,
    *,
    fate: Fate = Fate.DROP,
    share: float = 1.0,
    sides: tuple[Side, ...] = (Side.TO, Side.FROM),
) -> AsyncIterator[None]:
    """For the length of the block, that share of the packets on loopback to and from the port is gone."""
    rules = [_rule(port, side, fate=fate, share=share) for side in sides]
    await asyncio.to_thread(_remove_orphans)
    try:
        for rule in rules:
            await asyncio.to_thread(_iptables, "-I", rule)
        yield
    finally:
        for rule in rules:
            await asyncio.shield(asyncio.to_thread(_remove, rule))


def _rule(port: int, side: Side, *, fate: Fate, share: float) -> list[str]:
    chance = [] if share >= 1 else shlex.split(f"-m statistic --mode random --probability {share}")
    return [
        *shlex.split(f"INPUT -i lo -p tcp {side} {port} -m comment --comment"),
        f"{_MARK}{os.getpid()}",
        *chance,
        "-j",
        *fate.split(),
    ]


def _remove(rule: list[str]) -> None:
    try:
        _iptables("-D", rule)
    except RuleError:
        return  # it never came to be


def _remove_orphans() -> None:
    """Takes away what drills left behind that were killed."""
    for line in _iptables("-S", ["INPUT"]).splitlines():
        words = shlex.split(line)
        marks = [word.removeprefix(_MARK) for word in words if word.startswith(_MARK)]
        if marks and not Path(f"/proc/{marks[0]}").exists():
            _remove(words[1:])


def _iptables(action: str, rule: list[str]) -> str:
    program = which("iptables")
    if program is None:
        raise RuleError("iptables is missing: apt-get install iptables")
    ended = subprocess.run(
        [program, "-w", "5", action, *rule],
        check=False,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    if ended.returncode:
        raise RuleError(f"iptables {action} {' '.join(rule)}: {ended.stderr.strip()}")
    return ended.stdout
