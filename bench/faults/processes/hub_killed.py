"""F04: `kill -9` of the hub between its database's commit and the acknowledgement."""

from __future__ import annotations

import re
import signal
import sys
from typing import Final

import httpx

from bench.faults.aggregates import differences
from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.faults.field import Site, field
from bench.faults.processes.hub_launcher import KILL_FILE

LAUNCHER: Final = (sys.executable, "-m", "bench.faults.processes.hub_launcher")
MOST_MESSAGES: Final = 12
_DUPLICATES: Final = re.compile(
    r"^cloud_hub_ingest_duplicate_rows_total\{.*\} (\S+)$", re.MULTILINE
)


async def hub_killed(context: DrillContext) -> DrillResult:
    """The hub dies at a random acknowledgement of a random fetch: the rows are stored, and come again."""
    result = DrillResult(repeats=context.repeats)
    kill_file = context.folder / "kill-at"
    environment = {KILL_FILE: str(kill_file)}
    async with field(
        context, begin=False, hub_command=LAUNCHER, hub_environment=environment
    ) as site:
        await site.server.start()
        await site.agent.start()
        await site.sensors(rate=context.pick(ci=2500.0, soak=600.0))
        for _ in context.each(context.repeats):
            kill_file.write_text(str(context.rng.randint(1, MOST_MESSAGES)), encoding="ascii")
            await _dies(site, result)
        result.expect(site.sending, "the sensors were done before the last kill")
        kill_file.unlink()
        await site.hub.start()
        await site.enough(context.pick(ci=20_000, soak=100_000))
        result.balance = await site.settle(timeout_s=60)
        result.figures["duplicate_rows_ignored"] = await _ignored(site)
        result.faults += await differences(site.hub)
        result.lag = await site.loop_lag()
    result.expect(result.figures["duplicate_rows_ignored"], "no row came twice to the last hub")
    return result


async def _dies(site: Site, result: DrillResult) -> None:
    """Lets the hub run until it has killed itself; it may do so before it is ready."""
    await site.hub.spawn()
    code = await site.hub.ended(timeout_s=40)
    result.expect(code == -signal.SIGKILL, f"the hub ended with {code}")


async def _ignored(site: Site) -> int:
    """Rows that came to the present hub although they were stored, all lanes together."""
    async with httpx.AsyncClient(timeout=5) as client:
        reply = await client.get(f"http://127.0.0.1:{site.hub.http_port}/metrics")
    return int(sum(map(float, _DUPLICATES.findall(reply.text))))


DRILL = Drill(
    id="F04",
    name="hub killed between commit and acknowledgement",
    run=hub_killed,
    needs=("mosquitto", "nats-server"),
)
