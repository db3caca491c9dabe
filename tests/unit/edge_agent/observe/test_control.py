import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contract.status import Tier
from edge_agent.errors import ConfigurationError, StoreError
from edge_agent.observe.control import (
    MAX_REQUEST_BYTES,
    AgentNotRunning,
    CommandFailed,
    ControlServer,
    ask_agent,
)


async def echo(args: dict[str, Any]) -> object:
    return args


async def numbers(_: dict[str, Any]) -> object:
    return {"tier": Tier.HUB, "values": np.arange(3), "one": np.float64(1.5), "nan": float("nan")}


async def refuses(_: dict[str, Any]) -> object:
    raise StoreError("the outbox is closed")


async def breaks(_: dict[str, Any]) -> object:
    return dict[str, int]()["nothing"]


HANDLERS = {"echo": echo, "numbers": numbers, "refuses": refuses, "breaks": breaks}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


@asynccontextmanager
async def server(path: Path) -> AsyncIterator[ControlServer]:
    control = ControlServer(path, HANDLERS)
    await control.start()
    try:
        yield control
    finally:
        await control.close()


async def ask(path: Path, command: str, args: dict[str, Any] | None = None) -> object:
    return await asyncio.to_thread(ask_agent, path, command, args, timeout_s=3)


async def test_commands_are_answered_in_json(path: Path):
    async with server(path):
        assert await ask(path, "echo", {"id": "ü", "n": 1}) == {"id": "ü", "n": 1}
        assert await ask(path, "numbers") == {
            "tier": "hub",
            "values": [0, 1, 2],
            "one": 1.5,
            "nan": None,
        }


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("refuses", "the outbox is closed"),
        ("breaks", "KeyError: 'nothing'"),
        ("unknown", "no command 'unknown'; this agent knows breaks, echo"),
    ],
)
async def test_a_failure_is_told_and_the_server_goes_on(path: Path, command: str, why: str):
    async with server(path):
        with pytest.raises(CommandFailed, match=why):
            await ask(path, command)
        assert await ask(path, "echo", {}) == {}


async def test_only_its_user_can_open_it(path: Path):
    async with server(path):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


@pytest.mark.parametrize(
    "request_line", [b"nonsense\n", b"{}\n", b"[" * 5000 + b"\n", b"\xff\n", b"x" * 70_000 + b"\n"]
)
async def test_a_request_that_is_none_is_refused(path: Path, request_line: bytes):
    async with server(path):
        reader, writer = await asyncio.open_unix_connection(path, limit=2**20)
        writer.write(request_line)
        answer = await asyncio.wait_for(reader.read(), 3)
        writer.close()
        assert answer == b"" or b'"ok":false' in answer
        assert len(request_line) < MAX_REQUEST_BYTES or answer
        assert await ask(path, "echo", {}) == {}


async def test_a_socket_that_was_left_behind_is_replaced(path: Path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with server(path):
        assert await ask(path, "echo", {}) == {}


async def test_a_second_agent_is_refused(path: Path):
    async with server(path):
        with pytest.raises(ConfigurationError, match="another agent runs"):
            await ControlServer(path, {}).start()
        assert await ask(path, "echo", {}) == {}


async def test_a_file_in_the_way_is_left_alone(path: Path):
    path.write_text("precious")
    with pytest.raises(ConfigurationError, match="not a socket"):
        await ControlServer(path, {}).start()
    assert path.read_text() == "precious"


async def test_a_path_that_no_socket_can_have_is_told(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="too long"):
        await ControlServer(tmp_path / ("x" * 120), {}).start()


async def test_a_long_folder_is_no_obstacle(tmp_path: Path):
    folder = tmp_path / ("x" * 60) / ("y" * 60)
    folder.mkdir(parents=True)
    path = folder / "agent.sock"
    async with server(path):
        assert await asyncio.to_thread(ask_agent, path, "echo", {"n": 1}) == {"n": 1}
        await asyncio.sleep(0.05)
    assert not path.exists()


def test_without_an_agent_the_user_is_told_how_to_start_one(path: Path):
    with pytest.raises(AgentNotRunning, match="edge-agent run --config FILE"):
        ask_agent(path, "status")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(AgentNotRunning, match="nobody listens"):
        ask_agent(path, "status")


def test_an_agent_that_hangs_is_given_up(path: Path):
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(str(path))
        hung.listen(1)
        with pytest.raises(CommandFailed, match="no answer"):
            ask_agent(path, "status", timeout_s=0.2)
