"""F27: the agent's clock says 1970, yesterday, or next year; it jumps while it runs; then it becomes right.

The server has a certificate, which a wrong clock finds not yet valid or expired: the device stays alone
until its clock is right. Sensors publish all the time. Each reading goes into two streams: one whose
times are taken as they are, for the ledgers, and one whose times are checked, for the repair.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from bench.faults.clock.faked import FakedClock, cpu_s, make_certificate
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.evidence import judge
from bench.faults.field import Site
from bench.faults.field import field as running_field
from bench.stack import SIMULATED, Hub
from contract.trust import ReadingFlag
from edge_agent.errors import EdgeError

DAY_S: Final = 86_400.0
RATE_PER_S: Final = 100.0
CONNECTS_S: Final = 30.0
REPAIRS_S: Final = 20.0
TOLERANCE_S: Final = 2.5
MORE_CPU: Final = 0.25
CHECKED: Final = "checked/"
_STREAMS: Final = f"""
[[stream]]
name = "{{0}}/{{1}}"
topic = "sim/+"
time = "recorded"
{SIMULATED}
window = 8
hop = 8
[[stream]]
name = "{CHECKED}{{1}}"
topic = "sim/+"
{SIMULATED}
"""
_POLL_S: Final = 0.1


@dataclass(slots=True)
class _Found:
    """What was seen on the way."""

    connects_s: list[float] = field(default_factory=list)
    cpu_wrong: list[float] = field(default_factory=list)
    cpu_right: list[float] = field(default_factory=list)
    offline_while_wrong: bool = True
    shed: dict[str, int] = field(default_factory=dict)
    flagged: int = 0


async def wrong_clock(context: DrillContext) -> DrillResult:
    """Three boots with a wrong clock, then two jumps of a running agent's."""
    result, found = DrillResult(), _Found()
    clock = FakedClock(context.folder)
    now_s = time.time()
    async with _site(context, clock) as site:
        await site.server.start()
        await site.hub.start()
        clock.set(0.0)
        await site.agent.start()
        await site.sensors(rate=RATE_PER_S)
        for name, offset_s in (
            ("1970", 3600.0 - now_s),
            ("yesterday", -DAY_S),
            ("next year", 400 * DAY_S),
        ):
            context.say(f"booted with the clock at {name}")
            pid = site.agent.pid
            await site.kill_agent()
            clock.forget(pid)
            clock.set(offset_s)
            await site.agent.start()
            await _wrong(context, site, found, alone=True)
            await _right(site, clock, found)
        for offset_s in (400 * DAY_S, -DAY_S):
            context.say(f"a jump of {offset_s / DAY_S:+.0f} days")
            clock.set(offset_s)
            await _wrong(context, site, found, alone=False)
            await _right(site, clock, found)
        result.repeats = 5
        await site.enough(0)
        await site.sensors_done()
        await site.drained(timeout_s=30)
        repaired_s = await _repaired(site.hub)
        await asyncio.to_thread(_judge, site, result, found)
        result.lag = await site.loop_lag()
        pid = site.agent.pid
    clock.forget(pid)
    result.figures["repaired_s"] = -1.0 if repaired_s is None else round(repaired_s, 1)
    result.expect(repaired_s is not None, f"times were not repaired within {REPAIRS_S:g} s")
    return result


@asynccontextmanager
async def _site(context: DrillContext, clock: FakedClock) -> AsyncIterator[Site]:
    certificate, key = await asyncio.to_thread(make_certificate, context.folder)
    async with running_field(
        context,
        begin=False,
        agent_extra=_STREAMS,
        agent_keys={"hub": {"tls_ca": str(certificate)}},
        agent_prefix=clock.prefix,
        agent_environment=clock.environment,
        hub_keys={"nats.tls": {"ca": str(certificate)}},
        server_conf=f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}',
    ) as site:
        yield site


async def _wrong(context: DrillContext, site: Site, found: _Found, *, alone: bool) -> None:
    """Some seconds with the wrong clock."""
    await asyncio.sleep(2.0)  # what a start costs is past
    before_s, began_s = cpu_s(site.agent.pid), time.monotonic()
    await asyncio.sleep(context.pick(ci=1.5, soak=15.0))
    found.cpu_wrong.append((cpu_s(site.agent.pid) - before_s) / (time.monotonic() - began_s))
    status = await site.status()
    if alone:
        found.offline_while_wrong &= status["hub"]["health"] == "offline"
    found.flagged = max(found.flagged, status["faults"].get("time_untrusted", 0))
    _note_shed(found, status)


async def _right(site: Site, clock: FakedClock, found: _Found) -> None:
    """The clock becomes right: how long until the hub is there, and what the agent uses then."""
    began_s = time.monotonic()
    await asyncio.to_thread(clock.correct)
    async with asyncio.timeout(2 * CONNECTS_S):
        while True:
            with suppress(EdgeError):
                status = await site.status()
                if status["hub"]["health"] == "online":
                    break
            await asyncio.sleep(_POLL_S)
    found.connects_s.append(time.monotonic() - began_s)
    await asyncio.sleep(0.5)  # what waited has gone
    before_s, began_s = cpu_s(site.agent.pid), time.monotonic()
    await asyncio.sleep(1.5)
    found.cpu_right.append((cpu_s(site.agent.pid) - before_s) / (time.monotonic() - began_s))
    _note_shed(found, await site.status())


def _note_shed(found: _Found, status: dict[str, Any]) -> None:
    for kind, count in status["outbox"]["shed"].items():
        found.shed[kind] = max(found.shed.get(kind, 0), count)


async def _repaired(hub: Hub) -> float | None:
    """Seconds until every checked time is right within the tolerance; None: not in time."""
    began_s = time.monotonic()
    while time.monotonic() - began_s < REPAIRS_S:
        if await asyncio.to_thread(wrong_times, hub) == 0:
            return time.monotonic() - began_s
        await asyncio.sleep(5 * _POLL_S)
    return None


def wrong_times(hub: Hub) -> int:
    """Checked readings whose time is off, or that are not there; call off the loop."""
    times: dict[str, list[np.ndarray]] = defaultdict(list)
    statement = "SELECT stream, times FROM telemetry ORDER BY epoch, seq, first"
    for stream, body in hub.rows(statement):
        times[stream].append(np.frombuffer(body, "<f8"))
    wrong = 0
    for stream in [name for name in times if name.startswith(CHECKED)]:
        checked = np.concatenate(times[stream])
        right = np.concatenate(times.get("sim/" + stream.removeprefix(CHECKED)) or [np.empty(0)])
        both = min(len(checked), len(right))
        wrong += abs(len(checked) - len(right))
        wrong += int((np.abs(checked[:both] - right[:both]) > TOLERANCE_S).sum())
    return wrong


def _flags(hub: Hub) -> dict[str, int]:
    rows = hub.rows("SELECT stream, flags FROM telemetry")
    flags = np.concatenate(
        [np.frombuffer(body, np.uint8) for stream, body in rows if stream.startswith(CHECKED)]
    )
    return {
        "still_untrusted": int((flags & ReadingFlag.CLOCK_UNTRUSTED > 0).sum()),
        "repaired": int((flags & ReadingFlag.TIME_REPAIRED > 0).sum()),
        "checked": len(flags),
    }


def _judge(site: Site, result: DrillResult, found: _Found) -> None:
    result.balance = judge(site.hub, site.ledgers, streams="sim/")
    result.figures |= {
        "connects_max_s": round(max(found.connects_s), 1),
        "cpu_right": round(max(found.cpu_right), 2),
        "cpu_wrong": round(max(found.cpu_wrong), 2),
        "time_untrusted_on_device": found.flagged,
        "shed": sum(found.shed.values()),
        "wrong_times": wrong_times(site.hub),
        **_flags(site.hub),
    }
    result.expect(found.offline_while_wrong, "a wrong clock believed the server's certificate")
    result.expect(not sum(found.shed.values()), f"rows were given up: {found.shed}")
    result.expect(not result.balance.declared, f"{result.balance.declared} readings declared lost")
    result.expect(found.flagged, "no time was flagged while the clock was wrong")
    result.expect(
        max(found.cpu_wrong) <= max(found.cpu_right) + MORE_CPU,
        f"with a wrong clock the agent used {max(found.cpu_wrong):.2f} processors, "
        f"with the right one {max(found.cpu_right):.2f}",
    )
    result.within(max(found.connects_s), CONNECTS_S, "the connection after the clock was right")


DRILL = Drill(
    id="F27",
    name="a clock that is wrong, jumps, and becomes right",
    run=wrong_clock,
    needs=("mosquitto", "nats-server", "openssl"),
    ci_limit_s=180,
)
