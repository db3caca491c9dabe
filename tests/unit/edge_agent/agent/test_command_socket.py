"""Where the command socket lies when the data folder cannot hold it, and whom the command line trusts."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from edge_agent.agent import socket as places
from edge_agent.agent.socket import ask_running_agent, make_stand_in, stand_in_paths
from edge_agent.observe.control import AgentNotRunning, ControlServer
from edge_agent.settings import Settings
from tests.fakes.settings import settings_of


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(places, "RUNTIME", tmp_path / "run")
    (tmp_path / "tmp").mkdir()
    made = settings_of()
    device = made.device.model_copy(update={"data_dir": tmp_path / "absent"})
    return made.model_copy(update={"device": device})


async def _served(path: Path) -> ControlServer:
    async def answer(_args):
        return str(path)

    server = ControlServer(path, {"where": answer})
    await server.start()
    return server


async def _made(settings: Settings) -> Path:
    path = await asyncio.to_thread(make_stand_in, settings)
    assert path is not None
    return path


async def _ask(settings: Settings) -> object:
    return await asyncio.to_thread(ask_running_agent, settings, "where")


async def test_the_stand_in_lies_below_the_temporary_folder_for_this_user_alone(settings):
    path = await _made(settings)
    assert path == stand_in_paths(settings)[1]
    assert path.parent.stat().st_mode & 0o777 == 0o700
    server = await _served(path)
    assert await _ask(settings) == str(path)
    await server.close()
    with pytest.raises(AgentNotRunning, match="absent"):
        await _ask(settings)


async def test_the_service_managers_folder_is_preferred(settings):
    places.RUNTIME.mkdir(mode=0o700)
    path = await _made(settings)
    assert path == stand_in_paths(settings)[0]
    server = await _served(path)
    assert await _ask(settings) == str(path)
    await server.close()


def test_a_folder_that_others_may_write_is_not_used(settings):
    folder = stand_in_paths(settings)[1].parent
    folder.mkdir()
    folder.chmod(0o777)
    assert make_stand_in(settings) is None


def test_a_link_is_not_followed(settings, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    stand_in_paths(settings)[1].parent.symlink_to(tmp_path / "elsewhere")
    assert make_stand_in(settings) is None


async def test_nobody_is_asked_in_a_folder_of_a_stranger(settings, monkeypatch):
    path = await _made(settings)
    server = await _served(path)
    if os.geteuid() == 0:
        await asyncio.to_thread(os.chown, path.parent, 65533, 65533)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65533)
    with pytest.raises(AgentNotRunning):
        await _ask(settings)
    await server.close()
