"""`edge-agent simulate`, as a process of its own."""

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

from bench.servers import mosquitto
from tests.integration.edge_agent.mqtt.conftest import Broker
from tests.integration.edge_agent.mqtt.field import payloads, station, topics

COMMAND = "import sys; from edge_agent.cli import main; sys.exit(main(['simulate', *sys.argv[1:]]))"


async def start(*arguments: object) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        COMMAND,
        *map(str, arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def simulate(*arguments: object) -> tuple[int | None, str, str]:
    process = await start(*arguments)
    out, err = await asyncio.wait_for(process.communicate(), 50)
    return process.returncode, out.decode(), err.decode()


def recording(path: Path, count: int, *, step_s: float = 1.0) -> Path:
    lines = [
        {"t": 1764490000 + number * step_s, "topic": f"site/{number % 3}", "payload": {"n": number}}
        for number in range(count)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


async def test_a_recording_arrives_whole_and_in_order(broker: Broker, tmp_path: Path):
    path = recording(tmp_path / "r.ndjson", 30)
    url = f"mqtt://127.0.0.1:{broker.port}"
    ledger = tmp_path / "ledger"
    async with station(broker.port) as here:
        code, out, _ = await simulate(
            "--broker", url, "--input", path, "--qos", 1, "--loop", 2, "--ledger", ledger, "--json"
        )
        assert code == 0
        summary = json.loads(out)
        assert (summary["sent"], summary["acknowledged"]) == (60, 60)
        assert set(summary) == {"sent", "acknowledged", "seconds"}
        received = [json.loads(payload)["n"] for payload in payloads(await here.take(60))]
        assert received == [*range(30), *range(30)]
    noted = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert len(noted) == 60
    assert noted[4] == {"t": 1764490004.0, "topic": "site/1"}


async def test_recorded_time_can_run_faster(broker: Broker, tmp_path: Path):
    path = recording(tmp_path / "r.ndjson", 11, step_s=1.0)
    url = f"mqtt://127.0.0.1:{broker.port}"
    async with station(broker.port) as here:
        process = await start("--broker", url, "--input", path, "--speed", 10, "--qos", 1)
        batches = await here.take(11)
        assert await process.wait() == 0
        took_s = batches[-1].arrivals_s[-1] - batches[0].arrivals_s[0]
        assert 0.9 <= took_s < 2.0


async def test_synthetic_streams_have_four_channels_and_spikes(broker: Broker):
    url = f"mqtt://127.0.0.1:{broker.port}"
    async with station(broker.port, filters=[("lab/#", 1)]) as here:
        started_s = time.time()
        code, _, _ = await simulate(
            "--broker", url, "--synthetic", 2, "--messages", 40, "--qos", 1,
            "--anomaly-every", 10, "--topic-prefix", "lab/", "--rate", 200, "--burst", 4,
        )  # fmt: skip
        assert code == 0
        batches = await here.take(40)
        assert set(topics(batches)) == {"lab/sim/0", "lab/sim/1"}
        values = [json.loads(payload) for payload in payloads(batches)]
        assert all(set(value) == {"time", "n", "a", "b", "c", "d"} for value in values)
        assert all(started_s <= value["time"] <= time.time() for value in values)
        spiked = {value["n"] for value in values if value["a"] > 27 or value["d"] > 3}
        assert spiked <= {9, 19}
        assert spiked


@pytest.mark.needs_mosquitto
async def test_it_survives_the_brokers_death_and_loses_nothing(tmp_path: Path):
    ledger = tmp_path / "ledger"
    async with mosquitto(tmp_path) as broker:
        process = await start(
            "--broker", f"mqtt://127.0.0.1:{broker.port}", "--synthetic", 7, "--messages", 4000,
            "--rate", 2000, "--qos", 1, "--ledger", ledger, "--json",
        )  # fmt: skip
        await asyncio.sleep(1.2)
        await broker.kill()
        await asyncio.sleep(0.5)
        await broker.start()
        out, err = await asyncio.wait_for(process.communicate(), 40)
        assert process.returncode == 0, err.decode()
        assert json.loads(out)["acknowledged"] == 4000
        assert len(set(ledger.read_text().splitlines())) == 4000


async def test_an_interrupt_ends_it_in_order(broker: Broker):
    url = f"mqtt://127.0.0.1:{broker.port}"
    arguments = ["--synthetic", 1, "--messages", 10**6, "--rate", 100, "--qos", 1, "--json"]
    process = await start("--broker", url, *arguments)
    await asyncio.sleep(1.5)
    process.terminate()
    out, _ = await asyncio.wait_for(process.communicate(), 5)
    summary = json.loads(out)
    assert process.returncode == 130
    assert 0 < summary["sent"] == summary["acknowledged"]


async def test_a_broker_that_never_comes_is_given_up():
    code, out, err = await simulate(
        "--broker", "mqtt://127.0.0.1:1", "--synthetic", 1, "--messages", 1,
        "--give-up-s", 0.5, "--json",
    )  # fmt: skip
    assert code == 1
    assert json.loads(out)["sent"] == 0
    assert "mqtt://127.0.0.1:1 took nothing for 0.5 s" in err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--synthetic", "1"], "--messages"),
        (["--synthetic", "1", "--messages", "1", "--ledger", "x"], "--qos 1"),
        (["--synthetic", "1", "--messages", "1", "--broker", "http://x"], "mqtt://HOST:PORT"),
        (["--synthetic", "0", "--messages", "1"], "below 1"),
        ([], "required"),
    ],
)
async def test_wrong_options_are_named(arguments: list[str], why: str):
    code, _, err = await simulate(*arguments)
    assert code == 2
    assert why in err


async def test_a_broken_recording_is_named(broker: Broker, tmp_path: Path):
    path = tmp_path / "r.ndjson"
    path.write_text("nonsense\n")
    code, _, err = await simulate("--broker", f"mqtt://127.0.0.1:{broker.port}", "--input", path)
    assert code == 1
    assert f"{path}:1: " in err
