"""A start with a data folder that cannot be used: inference goes on, and nothing is lost or kept from the operator."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.servers import Mosquitto, NatsServer
from bench.stack import Agent, Hub, run
from tests.journeys.field import Watch, publish, until, watching
from tests.journeys.supervisor import notified

STREAM = """
[[stream]]
name = "flow"
topic = "plant/flow"
time = "recorded"
time_path = "t"
channels = {flow = {alarm_above = 100}}
rearm_windows = 1
"""
NOBODY = 65534
BEGIN_S = 1_790_000_000
# root overrides permissions; an agent that is started without that capability does not
WEAK = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="skerry-disk-"))
    yield folder
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700)
    shutil.rmtree(folder)


def wrong_owner(data_dir: Path) -> None:
    data_dir.mkdir()
    if os.geteuid() == 0:
        os.chown(data_dir, NOBODY, NOBODY)
        data_dir.chmod(0o755)
    else:
        data_dir.chmod(0o500)


def missing(data_dir: Path) -> None:
    data_dir.parent.mkdir()
    wrong_owner(data_dir.parent / "never")
    data_dir.parent.chmod(0o500)


def mend(data_dir: Path) -> None:
    data_dir.parent.chmod(0o700)
    data_dir.mkdir(exist_ok=True)
    if os.geteuid() == 0:
        os.chown(data_dir, 0, 0)
    data_dir.chmod(0o700)


def messages(first: int, count: int, *, alarm_at: int = -1) -> list[tuple[str, bytes]]:
    return [
        (
            "plant/flow",
            json.dumps({"flow": 500 if n == alarm_at else 1, "t": BEGIN_S + n}).encode(),
        )
        for n in range(first, first + count)
    ]


@asynccontextmanager
async def device(
    home: Path, broker: Mosquitto, data_dir: Path
) -> AsyncIterator[tuple[Agent, Watch]]:
    async with watching(broker.host, broker.port) as watch, notified(home) as systemd:
        agent = Agent(
            home / "device",
            broker=f"mqtt://{broker.host}:{broker.port}",
            hub=None,
            extra=STREAM,
            start_timeout_s=30,
            data_dir=data_dir,
            prefix=WEAK,
            environment=systemd.environment(watchdog_s=3),
        )
        try:
            await agent.start_without_broker()
            await until(lambda: "READY=1" in systemd.lines(), timeout_s=10)
            await until(lambda: "outbox: cannot be opened" in systemd.status(), timeout_s=10)
            yield agent, watch
            pings = systemd.pings()
            assert all(b - a < 3 for a, b in itertools.pairwise(pings))
        finally:
            await agent.kill()


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
@pytest.mark.parametrize("spoil", [wrong_owner, missing])
async def test_inference_goes_on_and_all_of_it_is_stored_when_the_folder_is_mended(
    home: Path, mosquitto_broker: Mosquitto, spoil
) -> None:
    field = (mosquitto_broker.host, mosquitto_broker.port)
    data_dir = home / "state" / "data" if spoil is missing else home / "data"
    spoil(data_dir)
    async with device(home, mosquitto_broker, data_dir) as (agent, watch):
        status = await agent.status_when(
            lambda now: all(broker["connected"] for broker in now["brokers"])
        )
        assert "cannot be opened" in status["outbox"]["fault"]
        assert status["degraded"]
        await asyncio.sleep(1)  # the lasting session is made meanwhile
        await publish(*field, messages(0, 100, alarm_at=40))
        await until(lambda: len(watch.verdicts) >= 100, timeout_s=10, what="100 verdicts")
        await until(lambda: watch.alarms, timeout_s=5)
        assert {"not_kept"} <= set(watch.verdicts[0].body["reasons"])
        assert "not_kept" in watch.alarms[0].body["reasons"]
        checked = await run("edge-agent", "check", "--offline", "--config", agent.config)
        assert os.geteuid() == 0 or checked.code == 1

        mend(data_dir)
        mended_s = time.monotonic()
        await agent.status_when(lambda now: not now["outbox"]["fault"] and now["readings"] >= 100)
        assert time.monotonic() - mended_s < 10
        await publish(*field, messages(100, 50))
        final = await agent.status_when(
            lambda now: (
                now["outbox"]["lanes"]["tel"]["readings"] >= 150
                and now["brokers"][0]["acknowledged"] >= 150
            )
        )
        assert final["outbox"]["lanes"]["tel"]["readings"] == 150
        assert final["alarms"] == 1
        assert final["outbox"]["lanes"]["evt"]["rows"] >= 1
        code, seconds = await agent.terminate()
        assert (code, seconds < 5) == (0, True)
        shown = [line["event"] for line in agent.log()]
        assert shown.count("outbox_unavailable") <= 2
        assert "outbox_opened" in shown


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
async def test_it_stops_in_order_and_within_five_seconds_without_ever_having_had_a_disk(
    home: Path, mosquitto_broker: Mosquitto
) -> None:
    data_dir = home / "data"
    wrong_owner(data_dir)
    async with device(home, mosquitto_broker, data_dir) as (agent, _):
        await publish(mosquitto_broker.host, mosquitto_broker.port, messages(0, 10))
        code, seconds = await agent.terminate()
    assert code == 0
    assert seconds < 5
    lines = [line for line in agent.log() if line["level"] in ("warning", "error")]
    assert len(lines) <= 6


@pytest.mark.timeout(120)
async def test_a_data_folder_that_is_a_file_stays_a_mistake(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "device", broker="mqtt://127.0.0.1:1", hub=None, extra=STREAM)
    agent.data_dir.write_text("not a folder")
    ended = await run("edge-agent", "run", "--config", agent.config)
    assert ended.code == 2
    assert "device.data_dir" in ended.err
    assert "choose a folder" in ended.err


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
async def test_a_second_agent_is_told_which_process_holds_the_folder(
    tmp_path: Path, mosquitto_broker: Mosquitto
) -> None:
    broker = f"mqtt://{mosquitto_broker.host}:{mosquitto_broker.port}"
    agent = Agent(tmp_path / "device", broker=broker, hub=None, extra=STREAM, start_timeout_s=30)
    try:
        await agent.start()
        ended = await run("edge-agent", "run", "--config", agent.config)
        assert ended.code == 1
        assert f"another edge-agent (pid {agent.pid}) runs with this data folder" in ended.err
    finally:
        await agent.kill()


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
async def test_the_hub_hears_of_it_helps_meanwhile_and_gets_everything_once(
    home: Path, mosquitto_broker: Mosquitto, hub_nats: NatsServer
) -> None:
    field = (mosquitto_broker.host, mosquitto_broker.port)
    data_dir = home / "data"
    wrong_owner(data_dir)
    hub = Hub(home / "hub", hub_nats)
    agent = Agent(
        home / "device",
        broker="mqtt://{}:{}".format(*field),
        hub=hub_nats.url,
        extra=STREAM,
        start_timeout_s=30,
        data_dir=data_dir,
        prefix=WEAK,
    )
    try:
        await hub.start()
        await agent.start_without_broker()
        await agent.status_when(
            lambda now: now["brokers"][0]["connected"] and now["hub"]["health"] == "online"
        )
        told: list[tuple[str, ...]] = []
        for _ in range(50):
            told = await asyncio.to_thread(
                hub.rows, "SELECT state FROM devices WHERE state IS NOT NULL"
            )
            if told:
                break
            await asyncio.sleep(0.1)
        assert "outbox: cannot be opened" in json.loads(told[0][0])["degraded"][0]
        await asyncio.sleep(0.5)
        await publish(*field, messages(0, 300))
        mend(data_dir)
        await agent.status_when(lambda now: not now["outbox"]["fault"])
        stored = await hub.wait_for(300, timeout_s=20)
        assert len(stored) == 300
        assert set(stored.values()) == {1}
        assert await asyncio.to_thread(hub.rows, "SELECT count(*) FROM gaps") == [(0,)]
    finally:
        await agent.kill()
        await hub.stop()
