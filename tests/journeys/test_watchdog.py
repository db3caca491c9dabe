"""systemd hears that the agent is ready, then a ping as long as it makes progress, and none when not."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from pathlib import Path

import pytest

from bench.ports import free_port
from bench.servers import Mosquitto
from bench.stack import Agent
from tests.journeys.field import publish, until
from tests.journeys.supervisor import notified

LIMIT_S = 3.0
STREAM = """
[[stream]]
name = "flow"
topic = "plant/flow"
channels = {flow = {max = 100}}
"""
LAUNCHER = Path(__file__).with_name("blocking_model.py")


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
async def test_pings_come_while_it_works_and_stop_while_it_is_frozen(
    tmp_path: Path, mosquitto_broker: Mosquitto
) -> None:
    broker = f"mqtt://{mosquitto_broker.host}:{mosquitto_broker.port}"
    async with notified(tmp_path) as systemd:
        agent = Agent(
            tmp_path / "device",
            broker=broker,
            hub=None,
            extra=STREAM,
            start_timeout_s=30,
            environment=systemd.environment(LIMIT_S),
        )
        try:
            await agent.start()
            await until(lambda: systemd.status().startswith("ready"), timeout_s=10)
            begin = systemd.lines()
            assert begin.count("READY=1") == 1
            assert begin.index("READY=1") > begin.index("STATUS=starting: models are loaded")
            await until(lambda: len(systemd.pings()) >= 5, timeout_s=15)
            pings = systemd.pings()
            gaps = [after - before for before, after in itertools.pairwise(pings)]
            assert max(gaps) < LIMIT_S / 2, "at least two pings in the limit"

            agent.freeze()
            await asyncio.sleep(0.3)
            frozen_s = time.monotonic()
            await asyncio.sleep(LIMIT_S)
            assert systemd.pings(since_s=frozen_s) == []
            agent.thaw()
            await until(lambda: systemd.pings(since_s=frozen_s), timeout_s=10)

            code, _ = await agent.terminate()
            assert code == 0
            assert "STOPPING=1" in systemd.lines()
        finally:
            await agent.kill()


@pytest.mark.timeout(120)
async def test_without_a_broker_it_is_ready_to_work_and_says_what_is_missing(
    tmp_path: Path,
) -> None:
    async with notified(tmp_path) as systemd:
        agent = Agent(
            tmp_path / "device",
            broker=f"mqtt://127.0.0.1:{free_port()}",
            hub=None,
            extra=STREAM,
            start_timeout_s=30,
            environment=systemd.environment(LIMIT_S),
        )
        try:
            await agent.start_without_broker()
            await until(lambda: "READY=1" in systemd.lines(), timeout_s=10)
            await until(lambda: "degraded: broker mqtt://" in systemd.status(), timeout_s=10)
            await until(systemd.pings, timeout_s=10)
        finally:
            await agent.stop()


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
async def test_a_batch_that_hangs_in_a_model_ends_the_pings(
    tmp_path: Path, mosquitto_broker: Mosquitto
) -> None:
    field = (mosquitto_broker.host, mosquitto_broker.port)
    gate = tmp_path / "gate"
    async with notified(tmp_path) as systemd:
        agent = Agent(
            tmp_path / "device",
            broker="mqtt://{}:{}".format(*field),
            hub=None,
            extra=STREAM,
            start_timeout_s=30,
            environment={**systemd.environment(LIMIT_S), "BLOCK_WHILE": str(gate)},
        )
        agent._command[:1] = [sys.executable, str(LAUNCHER)]
        try:
            await agent.start()
            await until(lambda: len(systemd.pings()) >= 2, timeout_s=10)
            gate.touch()
            await publish(*field, [("plant/flow", b'{"flow": 1}')])
            await asyncio.sleep(0.5)
            hung_s = time.monotonic()
            await asyncio.sleep(LIMIT_S)
            assert systemd.pings(since_s=hung_s) == [], "systemd would kill it now"
            gate.unlink()
            await until(lambda: systemd.pings(since_s=hung_s), timeout_s=10)
        finally:
            await agent.kill()
