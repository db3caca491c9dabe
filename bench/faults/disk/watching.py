"""What drills on disks ask of a running agent: does it go on, is it well again, how talkative is it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any, Final

import httpx

from bench.faults.field import Site
from edge_agent.errors import EdgeError

HEALTHY_S: Final = 10.0
"""Allowed from the end of a cause to the end of its effects."""
LINES_PER_MINUTE: Final = 6.0
"""Allowed while a fault lasts, after its first lines."""
VERDICT_S: Final = 5.0
"""A device that gives no verdict for so long does not go on."""
_POLL_S: Final = 0.05


async def healthy(site: Site, *, timeout_s: float = 60.0) -> float:
    """Seconds until the outbox has no fault and stores again; fails when that takes too long."""
    begin_s = time.monotonic()
    commits = -1
    while True:
        outbox = await outbox_of(site)
        if outbox is not None and not outbox["fault"]:
            if 0 <= commits < outbox["commits"]:
                return time.monotonic() - begin_s
            commits = outbox["commits"] if commits < 0 else commits
        assert time.monotonic() - begin_s < timeout_s, f"still not healthy: {outbox}"
        await asyncio.sleep(_POLL_S)


async def flows(site: Site, *, timeout_s: float = 90.0) -> float:
    """Seconds until the hub's database has grown; fails when that takes too long."""
    begin_s, before = time.monotonic(), await rows_at_hub(site)
    while True:
        if await rows_at_hub(site) > before:
            return time.monotonic() - begin_s
        assert time.monotonic() - begin_s < timeout_s, f"no row reached the hub in {timeout_s:g} s"
        await asyncio.sleep(_POLL_S)


async def rows_at_hub(site: Site) -> int:
    """How many rows of telemetry the hub's database holds."""
    rows = await asyncio.to_thread(site.hub.rows, "SELECT count(*) FROM telemetry")
    return int(rows[0][0]) if rows else 0


async def outbox_of(site: Site) -> dict[str, Any] | None:
    """The outbox as the agent tells it; None while it does not answer."""
    try:
        found = (await site.status())["outbox"]
    except (EdgeError, OSError):
        return None
    assert isinstance(found, dict)
    return found


async def told_fault(site: Site) -> str:
    """What the agent's readiness says of its outbox, or "": the answer needs no disk."""
    async with httpx.AsyncClient(timeout=5) as client:
        reply = await client.get(f"http://127.0.0.1:{site.agent.http_port}/readyz")
    told = str(reply.json()["outbox"])
    return "" if told == "ok" else told


async def decided(site: Site) -> int:
    """How many verdicts the agent has given since it began, by its metrics: they need no disk."""
    async with httpx.AsyncClient(timeout=5) as client:
        reply = await client.get(f"http://127.0.0.1:{site.agent.http_port}/metrics")
    found = re.findall(r"^edge_agent_verdicts_total(?:\{[^}]*\})? (\S+)$", reply.text, re.MULTILINE)
    return int(sum(map(float, found)))


async def goes_on(site: Site) -> bool:
    """Whether the agent gives a verdict from now on, within five seconds; returns with the first one."""
    begin_s, before = time.monotonic(), await decided(site)
    while time.monotonic() - begin_s < VERDICT_S:
        await asyncio.sleep(_POLL_S)
        if await decided(site) > before:
            return True
    return False


def said_in(log: Path) -> list[dict[str, Any]]:
    """The lines of a log that are JSON (a traceback is not); call off the loop."""
    lines = log.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def lines_of(log: Path) -> int:
    """How many lines a log has; call off the loop."""
    return log.read_bytes().count(b"\n")
