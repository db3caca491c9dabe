"""How late an agent's event loop was, over all its lives, and how far the machine was to blame.

Two figures tell whether the machine withheld the processor: how late a process is woken that only
sleeps, and how long the agent's main thread stood ready to run and did not (the kernel counts it).
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from bench.stack import Agent

_BUCKET = re.compile(r'^edge_agent_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)
_HALF_WINDOW_S = 0.25
_ASLEEP = """
import os, sys, time
late, stop = [], sys.argv[1]
parent = os.getppid()
while os.getppid() == parent and not os.path.exists(stop):
    due = time.monotonic() + 0.05
    time.sleep(0.05)
    late.append((time.monotonic() - due) * 1e3)
late.sort()
print(late[min(len(late) - 1, int(len(late) * 0.99))] if late else 0.0)
"""


@dataclass(frozen=True, slots=True)
class LagFigures:
    """Percentiles 99 in milliseconds; the agent's lies in a bucket of its histogram."""

    above_ms: float
    p99_ms: float
    """The edges of that bucket."""
    control_p99_ms: float
    cpu_wait_p99_ms: float
    """How long the agent's main thread waited for a processor, within any half second."""
    samples: int

    def faults(self, most_ms: float) -> list[str]:
        """A sentence when the agent was late by itself."""
        if not self.samples:
            return ["the event loop's lag was not measured"]
        blame_ms = max(self.control_p99_ms, self.cpu_wait_p99_ms)
        if self.p99_ms <= most_ms or self.above_ms <= blame_ms:
            return []
        edges = f"{self.above_ms:.0f} to {self.p99_ms:.0f}"
        agent = f"the event loop's lag has a p99 of {edges} ms in {self.samples} samples"
        control = (
            f"a process that only slept was late by {self.control_p99_ms:.1f} ms, and the agent's main "
            f"thread waited {self.cpu_wait_p99_ms:.1f} ms for a processor"
        )
        return [f"{agent}, allowed are {most_ms:.0f}; {control}"]


@dataclass(slots=True)
class LagWatch:
    """Collects the histograms of an agent's lives; `take` again within one life replaces its figures."""

    folder: Path
    agent: Agent
    _lives: dict[int, dict[float, float]] = field(default_factory=dict)
    _before: dict[int, dict[float, float]] = field(default_factory=dict)
    _control: subprocess.Popen[bytes] | None = None
    _waits_ms: list[float] = field(default_factory=list)
    _watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """From now on both measures of the machine are taken."""
        self._control = await asyncio.to_thread(self._spawn)
        self._watching = asyncio.create_task(self._watch_processor(), name="processor")

    async def take(self) -> None:
        """Keeps what this life has measured so far; an agent that does not answer is left out."""
        if not self.agent.is_running():
            return
        pid = self.agent.pid
        histogram = await _read(self.agent.http_port)
        if histogram:
            before = self._before.get(pid, {})
            self._lives[pid] = {
                limit: count - before.get(limit, 0.0) for limit, count in histogram.items()
            }

    async def forget(self) -> None:
        """Leaves out what this life has measured so far: the drill itself held it up."""
        pid = self.agent.pid
        self._before[pid] = await _read(self.agent.http_port)
        self._lives.pop(pid, None)

    async def figures(self) -> LagFigures:
        """Both percentiles; the sleeping process ends."""
        total: dict[float, float] = {}
        for life in self._lives.values():
            for limit, count in life.items():
                total[limit] = total.get(limit, 0.0) + count
        samples = max(total.values(), default=0.0)
        edges = sorted(total)
        reached = [n for n, limit in enumerate(edges) if total[limit] >= 0.99 * samples]
        p99_ms = edges[reached[0]] * 1e3 if samples else 0.0
        above_ms = edges[reached[0] - 1] * 1e3 if samples and reached[0] else 0.0
        waits_ms = sorted(self._waits_ms) or [0.0]
        control_ms = await self.close()
        wait_ms = waits_ms[min(len(waits_ms) - 1, int(len(waits_ms) * 0.99))]
        return LagFigures(above_ms, min(p99_ms, 1e6), control_ms, wait_ms, int(samples))

    async def close(self) -> float:
        """Ends both measurements; returns the p99 of the sleeping process."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        return await asyncio.to_thread(self._end)

    async def _watch_processor(self) -> None:
        """How much of each half second the main thread of the agent waited for a processor."""
        pid, earlier_ms = 0, [0.0, 0.0]
        while True:
            now_ms = _run_delay_ms(self.agent.pid) if self.agent.is_running() else None
            if now_ms is not None:
                if self.agent.pid == pid:
                    self._waits_ms.append(now_ms - earlier_ms[0])
                    earlier_ms = [earlier_ms[1], now_ms]
                else:
                    pid, earlier_ms = self.agent.pid, [now_ms, now_ms]
            await asyncio.sleep(_HALF_WINDOW_S)

    @property
    def _stop(self) -> Path:
        return self.folder / "lag.stop"

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", "-c", _ASLEEP, str(self._stop)]
        return subprocess.Popen(command, stdout=subprocess.PIPE)

    def _end(self) -> float:
        control, self._control = self._control, None
        if control is None:
            return 0.0
        self._stop.touch()
        try:
            out, _ = control.communicate(timeout=10)
        finally:
            control.kill()
            control.wait()
            self._stop.unlink(missing_ok=True)
        return float(out)


def _run_delay_ms(pid: int) -> float | None:
    """How long the main thread of a process has waited for a processor since it began."""
    try:
        fields = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii").split()
    except OSError:
        return None
    return int(fields[1]) / 1e6


async def _read(http_port: int) -> dict[float, float]:
    async with httpx.AsyncClient(timeout=2) as client:
        try:
            reply = await client.get(f"http://127.0.0.1:{http_port}/metrics")
        except httpx.HTTPError:
            return {}
    found = _BUCKET.findall(reply.text)
    return {float(limit.replace("+Inf", "inf")): float(count) for limit, count in found}
