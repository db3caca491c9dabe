"""A million readings wait on one device: it boots as fast as ever, and drains without keeping live data.

Everything runs on this one machine: broker, sensors, agent, nats-server with `sync_interval: always`, hub.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.agent import NAME, PROBE
from bench.faults.backlog.fill import Filled, fill
from bench.faults.backlog.judging import judge_backlog
from bench.faults.backlog.live import Latencies, latencies_during
from bench.faults.backlog.others import moment, share_left
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import STREAMS, Site, field
from bench.latency import VerdictClock, percentile
from bench.toy_package import FAMILY, build_toy_package
from bench.waves import CHANNELS

READINGS: Final = 1_000_000
MAX_BOOT_S: Final = 1.0
MIN_READINGS_PER_S: Final = 50_000
MAX_LIVE_P99_MS: Final = 50.0
LIVE_PER_S: Final = 100
"""Probes a second, each scored by a model and answered; as many more readings come at QoS 1."""
QUIET_S: Final = 3.0
_MAX_BYTES: Final = 1024 * 1024 * 1024
_DRAIN_S: Final = 60.0
_POLL_S: Final = 0.1
_KEYS: Final[dict[str, dict[str, object]]] = {
    "device": {"name": NAME},
    "outbox": {"max_bytes": _MAX_BYTES},
}


async def _drill(context: DrillContext, sizes: Sequence[int], *, boots: int) -> DrillResult:
    result = DrillResult()
    package = context.folder / "package"
    await asyncio.to_thread(build_toy_package, package)
    async with field(
        context, begin=False, agent_extra=STREAMS + _probed(package), agent_keys=_KEYS
    ) as site:
        context.say("filling the outbox")
        filled = await fill(site.agent.data_dir / "outbox", sizes=sizes, max_bytes=_MAX_BYTES)
        result.figures |= {
            "backlog_readings": filled.readings,
            "backlog_rows": filled.rows,
            "backlog_mb": round(_bytes(site.agent.data_dir / "outbox") / 1e6, 1),
        }
        clock = await asyncio.to_thread(VerdictClock, site.broker.host, site.broker.port)
        try:
            await _boots(context, boots, site=site, clock=clock, result=result)
        finally:
            await asyncio.to_thread(clock.close)
        await _drains(context, site, filled, result)
        result.lag = await site.loop_lag()
    return result


async def _boots(
    context: DrillContext, count: int, *, site: Site, clock: VerdictClock, result: DrillResult
) -> None:
    """The agent is killed and started again; the last one stays."""
    took_s: list[float] = []
    waited_s: list[float] = []
    for _ in context.each(count):
        await site.kill_agent()
        began_s = time.perf_counter()
        starting = asyncio.create_task(site.agent.start(), name="agent start")
        came_s = await asyncio.to_thread(clock.until_first_verdict, timeout_s=20.0)
        waited_s.append(_waited_s(site.agent.pid))
        took_s.append(came_s - began_s)
        await starting
    result.repeats = count
    result.figures |= {
        "boot_to_verdict_s": round(median(took_s), 3),
        "boot_to_verdict_max_s": round(max(took_s), 3),
        "of_which_waited_for_processor_s": round(median(waited_s), 3),
        "imports_alone_s": round(await _imports_s(), 3),
    }
    own_s = median(took - waited for took, waited in zip(took_s, waited_s, strict=True))
    result.expect(
        own_s <= MAX_BOOT_S,
        f"the first verdict came {median(took_s):.2f} s after the start, {own_s:.2f} s of which were "
        f"the agent's own; allowed are {MAX_BOOT_S:g}",
    )


async def _drains(context: DrillContext, site: Site, filled: Filled, result: DrillResult) -> None:
    await site.sensors(rate=LIVE_PER_S)
    port = site.broker.port
    alone = await latencies_during(asyncio.sleep(QUIET_S), port=port, rate_per_s=LIVE_PER_S)
    context.say("draining")
    before = await asyncio.to_thread(moment)
    draining = asyncio.create_task(_drained(site, rows=filled.rows), name="draining")
    live = await latencies_during(draining, port=port, rate_per_s=LIVE_PER_S)
    others = (await asyncio.to_thread(moment)).others_since(before)
    drain_s = draining.result()
    per_s = filled.readings / drain_s
    status = await site.status()
    result.figures |= {
        "drain_s": round(drain_s, 2),
        "readings_per_s": round(per_s),
        **alone.figures("alone"),
        **live.figures("drain"),
        "drain_verdict_max_ms": round(max(live.verdicts_ms), 1),
        "probes": len(live.verdicts_ms),
        "others_processors": round(others, 2),
        **{f"agent_total_{name}_ms": value for name, value in _total(status).items()},
    }
    await site.enough(0)
    await site.drained(timeout_s=20)
    result.balance = await asyncio.to_thread(
        judge_backlog, site.hub, filled, site.ledgers, "probe/"
    )
    _judge(result, per_s=per_s, live=live, left=share_left(others))


def _judge(result: DrillResult, *, per_s: float, live: Latencies, left: float) -> None:
    """Both promises are for a machine of our own: what others took of it is taken from them."""
    slow_ms, echo_ms = percentile(live.verdicts_ms, 99), percentile(live.echoes_ms, 99)
    busy = f"; {left:.0%} of the machine were ours"
    result.expect(
        per_s >= left * MIN_READINGS_PER_S,
        f"{per_s:,.0f} readings/s drained, at least {MIN_READINGS_PER_S:,} are wanted{busy}",
    )
    result.expect(
        slow_ms <= MAX_LIVE_P99_MS / left,
        f"live verdicts had a p99 of {slow_ms:.0f} ms while draining, allowed are "
        f"{MAX_LIVE_P99_MS:g}; echoes from the broker alone {echo_ms:.0f} ms{busy}",
    )


async def _drained(site: Site, *, rows: int) -> float:
    """The hub appears; seconds from the first stored row of the backlog until the database holds all."""
    await site.server.start()
    await site.hub.start()
    first_s = None
    async with asyncio.timeout(_DRAIN_S):
        while True:
            applied = await asyncio.to_thread(_applied, site)
            now_s = time.monotonic()
            if applied and first_s is None:
                first_s = now_s
            if applied >= rows and first_s is not None:
                return now_s - first_s
            await asyncio.sleep(_POLL_S)


def _applied(site: Site) -> int:
    rows = site.hub.rows("SELECT max(applied) FROM watermarks WHERE lane = 'tel'")
    return rows[0][0] or 0 if rows else 0


def _total(status: dict[str, Any]) -> dict[str, float]:
    total = status["stages_ms"].get("total", {})
    return {name: total[name] for name in ("p50", "p99") if name in total}


def _waited_s(pid: int) -> float:
    """How long the main thread of a process has stood ready to run, and others had the processors."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9


async def _imports_s() -> float:
    """What a Python needs to import what the agent needs."""
    began_s = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import edge_agent.agent.lifetime"
    )
    await process.wait()
    return time.perf_counter() - began_s


def _probed(package: Path) -> str:
    channels = ", ".join(f"{name} = {{}}" for name in CHANNELS)
    return (
        f'[[stream]]\nname = "probe/{{1}}"\ntopic = "{PROBE}/+"\ntime = "recorded"\n'
        f'channels = {{ {channels} }}\nmodel = "{FAMILY}"\nhop = 1\n'
        f'[[model]]\npackage = "{package}"\n'
    )


def _bytes(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.iterdir())


def dense_rows(readings: int) -> list[int]:
    """Full rows: what came faster than the disk stores."""
    return [256] * (readings // 256) + ([rest] if (rest := readings % 256) else [])


def sparse_rows(readings: int, context: DrillContext) -> list[int]:
    """1 to 16 readings a row: what came at some hundred messages a second."""
    sizes: list[int] = []
    left = readings
    while left > 0:
        sizes.append(min(left, context.rng.randint(1, 16)))
        left -= sizes[-1]
    return sizes


async def full_rows(context: DrillContext) -> DrillResult:
    """A million readings in 3,907 rows."""
    return await _drill(context, dense_rows(READINGS), boots=context.pick(ci=3, soak=10))


async def small_rows(context: DrillContext) -> DrillResult:
    """A million readings in about 118,000 rows."""
    return await _drill(context, sparse_rows(READINGS, context), boots=context.pick(ci=1, soak=10))


FULL_ROWS = Drill(
    id="B01",
    name="a backlog of 1,000,000 readings, full rows",
    run=full_rows,
    needs=("mosquitto",),
)
SMALL_ROWS = Drill(
    id="B02",
    name="a backlog of 1,000,000 readings, small rows",
    run=small_rows,
    needs=("mosquitto",),
    ci_limit_s=180,
)
