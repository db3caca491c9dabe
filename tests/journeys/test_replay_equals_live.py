"""A replay of what the sensors sent gives the verdicts of the live path, where no hub answered."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.servers import Mosquitto
from bench.stack import Agent, command, finished, player, start, stream_of_model
from tests.journeys.field import until, watching

MOTION = "{acc_x = {}, acc_y = {}, acc_z = {}, gyro_x = {}, gyro_y = {}, gyro_z = {}}"
STREAMS = (
    stream_of_model(
        "flow", topic="plant/flow", channels="{flow = {}}", family="waterflow-anomaly"
    ).strip()
    + "\n"
    + stream_of_model("motion/{1}", topic="motion/+", channels=MOTION, family="motion-class")
)
WINDOWS = {"flow": 1268 - 11, **{f"motion/r{index:02d}": 1 for index in range(40)}}
SAME = ("time", "label", "tier", "model", "release", "stale_ms", "reasons")

Verdicts = dict[str, list[dict[str, Any]]]


async def recordings(folder: Path) -> list[Path]:
    """The water flow and the motions of the demo, written in a process of their own: it loads a lot."""
    folder.mkdir()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "deploy.demo.recordings", str(folder)
    )
    assert await asyncio.wait_for(process.wait(), 60) == 0
    return sorted(folder.glob("*.ndjson"))


async def live(agent: Agent, broker: Mosquitto, files: list[Path], *pace: object) -> Verdicts:
    """The verdicts of the agent, by stream, while sensors send the recordings at a pace."""
    async with watching(broker.host, broker.port) as watch:
        await agent.start()
        try:
            url = f"mqtt://{broker.host}:{broker.port}"
            await finished(await start(player(url, files, *pace)))
            wanted = sum(WINDOWS.values())
            await until(lambda: len(watch.verdicts) >= wanted, timeout_s=20)
        finally:
            await agent.stop()
        return watch.by_stream()


async def replayed(agent: Agent, files: list[Path]) -> str:
    return await command(
        "edge-agent", "replay", "--json", "--config", agent.config, "--input", *files
    )


def compare(found: Verdicts, expected: Verdicts) -> None:
    """Labels, tiers and times equal; scores to 1e-5; for every window."""
    assert {stream: len(each) for stream, each in found.items()} == WINDOWS
    for stream, verdicts in expected.items():
        for mine, theirs in zip(found[stream], verdicts, strict=True):
            assert [mine[key] for key in SAME] == [theirs[key] for key in SAME], stream
            assert mine["score"] == pytest.approx(theirs["score"], rel=0, abs=1e-5)
            assert mine["confidence"] == pytest.approx(theirs["confidence"], rel=0, abs=1e-5)
            assert mine["stages_ms"] != {}


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(90)
async def test_a_replay_gives_the_live_verdicts_and_itself_bit_for_bit(
    tmp_path: Path, mosquitto_broker: Mosquitto
) -> None:
    url = f"mqtt://{mosquitto_broker.host}:{mosquitto_broker.port}"
    files = await recordings(tmp_path / "recordings")
    agents = [
        Agent(tmp_path / name, broker=url, hub=None, extra=STREAMS) for name in ("slow", "fast")
    ]
    first, second = await replayed(agents[0], files), await replayed(agents[0], files)
    assert first == second, "two replays differ"
    *lines, last = [json.loads(line) for line in first.splitlines()]
    expected: Verdicts = {}
    for verdict in lines:
        assert verdict["stages_ms"] == {}
        expected.setdefault(verdict["stream"], []).append(verdict)
    assert {stream: len(each) for stream, each in expected.items()} == WINDOWS
    assert last["summary"]["verdicts"] == len(lines)

    # Whatever the rhythm of the sensors, and so of the batches.
    steady = await live(agents[0], mosquitto_broker, files, "--rate", 2000)
    compare(steady, expected)
    bursts = await live(agents[1], mosquitto_broker, files, "--rate", 4000, "--burst", 700)
    compare(bursts, expected)
