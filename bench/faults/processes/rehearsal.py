"""R01, R02: the device's own rehearsal, on real servers and on the built-in ones."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any, Final

from bench.faults.drill import Drill, DrillContext, DrillResult
from bench.stack import BIN

DRILLS: Final = (
    "link_cut",
    "half_open",
    "server_frozen",
    "kill_ingest",
    "kill_drain",
    "disk_full",
    "clock_jump",
    "corrupt_spool",
    "poison_row",
)
IN_SHORT: Final = ("link_cut", "kill_ingest", "corrupt_spool")
"""What the short tier asks of the built-in servers: each of the three once."""
LEAST_READINGS: Final = 1000


async def rehearsal(context: DrillContext, *, servers: str) -> DrillResult:
    """Every drill of `edge-agent rehearse` passes, and says with which servers it was made."""
    wanted = DRILLS if servers == "auto" else context.pick(ci=IN_SHORT, soak=DRILLS)
    process = await asyncio.create_subprocess_exec(
        *(str(BIN / "edge-agent"), "rehearse", "--json", "--servers", servers),
        *("--drills", ",".join(wanted)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=context.folder,
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.communicate()
    result = DrillResult(repeats=1)
    if process.returncode not in (0, 1):
        result.faults.append(f"it ended with {process.returncode}: {err.decode()[-500:]}")
        return result
    _judge(json.loads(out), result, servers, wanted)
    return result


def _judge(
    sheet: dict[str, Any], result: DrillResult, servers: str, wanted: tuple[str, ...]
) -> None:
    drills = sheet["drills"]
    result.figures |= {f"{drill['name']}_recovery_s": drill["recovery_s"] for drill in drills}
    result.figures["readings"] = sum(drill["readings"] for drill in drills)
    told_of = tuple(drill["name"] for drill in drills)
    result.expect(told_of == wanted, f"the sheet tells of {', '.join(told_of)}")
    for drill in drills:
        name = drill["name"]
        result.expect(drill["pass"], f"{name} failed: {'; '.join(drill.get('why', []))}")
        result.expect(drill["lost"] == 0, f"{name}: {drill['lost']} lost")
        result.expect(drill["duplicate"] == 0, f"{name}: {drill['duplicate']} twice")
        result.expect(drill["readings"] >= LEAST_READINGS, f"{name}: {drill['readings']} readings")
    result.expect(
        sheet["ok"] == all(drill["pass"] for drill in drills), "the sheet contradicts itself"
    )
    told = json.dumps(sheet["servers"])
    result.expect(("mosquitto" in told) == (servers == "auto"), f"servers are told as {told}")


REAL: Final = Drill(
    id="R01",
    name="the device's rehearsal, real servers",
    run=partial(rehearsal, servers="auto"),
    needs=("mosquitto", "nats-server"),
    ci_limit_s=240,
)
STAND_IN: Final = Drill(
    id="R02",
    name="the device's rehearsal, built-in servers",
    run=partial(rehearsal, servers="stand-in"),
    ci_limit_s=240,
)
