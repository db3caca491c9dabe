"""`edge-agent rehearse`: the device's own drills, on real servers and on the built-in ones; and that they can fail."""

import asyncio
import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.servers import NatsServer
from bench.stack import BIN, Agent, finished, run, simulator, start

BROKEN = """
import asyncio, sys
from edge_agent.outbox.store import Outbox
from edge_agent.rehearse import launcher

store = Outbox.submit

def submit(self, commit):  # says that it is stored a good while before it is
    loop = asyncio.get_running_loop()
    loop.call_later(2.0, store, self, commit)
    future = loop.create_future()
    future.set_result(0)
    return future

Outbox.submit = submit
launcher.main()
"""
REHEARSE = """
import asyncio, json, sys
from edge_agent.rehearse.catalogue import choose
from edge_agent.rehearse.rehearsal import Wanted, rehearse
from edge_agent.rehearse.servers import Choice
from edge_agent.rehearse.sheet import as_json

wanted = Wanted(
    config=None, drills=choose("kill_ingest"), readings=1000, servers=Choice.STAND_IN,
    patience_s=5.0, launcher=[sys.executable, sys.argv[1]],
)
print(json.dumps(as_json(asyncio.run(rehearse(wanted, say=lambda text: None)))))
"""
SITE = """
[[stream]]
name = "sim/{1}"
topic = "sim/+"
time = "recorded"
channels = {a = {min = 0, max = 50}, b = {}, c = {}, d = {}}
"""


async def sheet_of(*args: object) -> tuple[int, dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        *(str(BIN / "edge-agent"), "rehearse", "--json", *map(str, args)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert err == b""
    assert process.returncode is not None
    return process.returncode, json.loads(out)


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(150)
@pytest.mark.parametrize("servers", ["auto", "stand-in"])
async def test_drills_pass_and_say_what_they_were_made_with(servers: str) -> None:
    code, sheet = await sheet_of(
        "--servers", servers, "--readings", 1000, "--drills", "poison_row,link_cut"
    )
    assert (code, sheet["ok"]) == (0, True), sheet
    assert [drill["name"] for drill in sheet["drills"]] == ["poison_row", "link_cut"]
    for drill in sheet["drills"]:
        assert drill["pass"], drill
        assert drill["readings"] >= 1000
        assert (drill["lost"], drill["duplicate"], drill["phantom"]) == (0, 0, 0)
        assert drill["recovery_s"] >= 0
        assert drill["verdicts"] > 0
    real = [name for name, what in sheet["servers"].items() if what != "stand-in"]
    assert real == (["broker", "server", "hub"] if servers == "auto" else [])


def fingerprint(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.timeout(120)
async def test_a_real_installation_is_rehearsed_in_a_copy_and_not_touched(
    tmp_path: Path, field_nats: NatsServer
) -> None:
    broker = f"mqtt://127.0.0.1:{field_nats.mqtt_port}"
    agent = Agent(tmp_path / "real", broker=broker, hub="nats://127.0.0.1:9", extra=SITE)
    await agent.start()
    try:
        sensors = await start(
            simulator(broker, tmp_path / "ledger", messages=700, rate=1000, streams=2)
        )
        assert await finished(sensors) == 700
        before = await agent.status_when(lambda status: status["readings"] >= 700)
        code, sheet = await sheet_of(
            "--config", agent.config, "--servers", "stand-in",
            "--readings", 1000, "--drills", "corrupt_spool",
        )  # fmt: skip
        after = await agent.status()
    finally:
        await agent.terminate()
    assert (code, sheet["ok"]) == (0, True), sheet
    assert sheet["device"] == "journey"
    assert sheet["backlog"] == {"readings": 700, "stored": 700, "lost": 0}
    assert after["readings"] == before["readings"] == 700
    assert [broker["connections"] for broker in after["brokers"]] == [1]
    [drill] = sheet["drills"]
    assert drill["declared"] > 0
    assert drill["readings"] == 1000  # those of the copy are not among them
    still = fingerprint(agent.data_dir)
    code, sheet = await sheet_of(
        "--config",
        agent.config,
        "--servers",
        "stand-in",
        "--readings",
        1000,
        "--drills",
        "link_cut",
    )
    assert (code, sheet["backlog"]["lost"]) == (0, 0)
    assert fingerprint(agent.data_dir) == still


@pytest.mark.timeout(120)
async def test_an_agent_that_acknowledges_too_early_fails(tmp_path: Path) -> None:
    broken, script = tmp_path / "broken.py", tmp_path / "rehearse.py"
    broken.write_text(BROKEN, encoding="utf-8")
    script.write_text(REHEARSE, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), str(broken), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    sheet = json.loads(out)
    [drill] = sheet["drills"]
    assert drill["lost"] > 0
    assert (drill["pass"], sheet["ok"]) == (False, False)
    assert any("neither stored nor declared" in reason for reason in drill["why"])


@pytest.mark.timeout(60)
async def test_ctrl_c_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        str(BIN / "edge-agent"), "rehearse", "--servers", "stand-in",
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(30):
        while not list(tmp_path.glob("skerry-rehearsal-*/agent/agent.log")):
            await asyncio.sleep(0.1)
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(20):
        out, err = await process.communicate()
    assert (process.returncode, out) == (130, b"")
    assert err == b"edge-agent rehearse: interrupted; everything was stopped\n"
    assert not list(tmp_path.glob("skerry-rehearsal-*"))
    assert not _processes_in(tmp_path)


@pytest.mark.timeout(60)
async def test_a_killed_rehearsal_takes_its_servers_with_it(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        str(BIN / "edge-agent"), "rehearse", "--servers", "stand-in", env=environment
    )
    async with asyncio.timeout(30):
        while not list(tmp_path.glob("skerry-rehearsal-*/agent/agent.log")):
            await asyncio.sleep(0.1)
    assert _processes_in(tmp_path)
    process.kill()
    await process.wait()
    async with asyncio.timeout(10):
        while _processes_in(tmp_path):
            await asyncio.sleep(0.1)


def _processes_in(folder: Path) -> list[str]:
    """The command lines that name the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in text:
            found.append(text)
    return found


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--drills", "flood"], "flood"),
        (["--drills", ","], "no drill is named"),
        (["--readings", "10"], "at least 1000"),
        (["--config", "/nowhere/edge-agent.toml"], "/nowhere/edge-agent.toml"),
    ],
)
async def test_what_cannot_run_says_why_and_ends_with_2(args: list[str], word: str) -> None:
    ended = await run("edge-agent", "rehearse", *args)
    assert (ended.code, ended.out) == (2, "")
    assert word in ended.err
    assert "Traceback" not in ended.err


async def test_a_configuration_of_which_no_reading_can_be_made_is_named(tmp_path: Path) -> None:
    config = tmp_path / "edge-agent.toml"
    config.write_text(
        '[device]\nname = "d"\n[[stream]]\nname = "odd"\ntopic = "t"\n'
        'channels = {x = {path = "v[999999]"}}\n',
        encoding="utf-8",
    )
    ended = await run("edge-agent", "rehearse", "--config", config)
    assert (ended.code, ended.out) == (2, "")
    assert "'odd'" in ended.err
