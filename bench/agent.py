"""One `edge-agent run` under test: its configuration, its life, its use of the machine."""

import asyncio
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import Any

import psutil

from bench.process import ServerError
from bench.toy_package import FAMILY
from bench.waves import CHANNELS
from edge_agent.errors import EdgeError
from edge_agent.observe.control import ask_agent

NAME = "bench"
LOAD = "bench/load"
"""Topics under it are scored every 8th reading, as the model asks."""
PROBE = "bench/probe"
"""Topics under it are scored at every reading."""
VERDICTS = f"skerry/{NAME}/verdict/#"
_STOP_S = 15.0


def agent_toml(*, home: Path, package: Path, broker_url: str) -> str:
    """The configuration: two kinds of streams, no hub."""
    channels = ", ".join(f"{name} = {{ min = -1000, max = 1000 }}" for name in CHANNELS)
    streams = [
        f'[[stream]]\nname = "{name}/{{1}}"\ntopic = "{topic}/+"\ntime = "recorded"\n'
        f'channels = {{ {channels} }}\nmodel = "{FAMILY}"\n{more}'
        for name, topic, more in (("load", LOAD, ""), ("probe", PROBE, "hop = 1\n"))
    ]
    head = (
        f'[device]\nname = "{NAME}"\ndata_dir = "{home}"\n[broker]\nurl = "{broker_url}"\n'
        f"[http]\nport = 0\n"
    )
    return head + "".join(streams) + f'[[model]]\npackage = "{package}"\n'


class AgentUnderTest:
    """A fresh agent in `folder`; `start` spawns it and does not wait.

    `commands` is the folder with `edge-agent`; default: the environment that this runs in.
    """

    def __init__(
        self, folder: Path, *, package: Path, broker_url: str, commands: Path | None = None
    ) -> None:
        self._commands = commands or Path(sysconfig.get_path("scripts"))
        folder.mkdir(parents=True)
        self.log_path = folder / "agent.log"
        self._socket = folder / "data" / "agent.sock"
        self._config = folder / "agent.toml"
        self._config.write_text(
            agent_toml(home=folder / "data", package=package, broker_url=broker_url),
            encoding="utf-8",
        )
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Spawns the process; returns when, on the performance counter."""
        script = self._commands / "edge-agent"
        with self.log_path.open("ab") as log:
            began_s = time.perf_counter()
            self._child = subprocess.Popen(
                [str(script), "run", "--config", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return began_s

    def status(self) -> dict[str, Any]:
        """What `edge-agent status` shows; raises EdgeError while it does not answer."""
        answer = ask_agent(self._socket, "status", timeout_s=10.0)
        assert isinstance(answer, dict)
        return answer

    async def ready(self, *, timeout_s: float = 20.0) -> None:
        """Returns once it is connected to its broker; raises ServerError with its log."""
        deadline_s = time.perf_counter() + timeout_s
        while not await asyncio.to_thread(self._connected):
            if time.perf_counter() > deadline_s:
                raise ServerError(f"the agent did not come up; its log: {self.log_path}")
            await asyncio.sleep(0.02)

    def usage(self) -> tuple[float, float]:
        """CPU seconds used so far, and resident memory in MB."""
        assert self._child is not None
        process = psutil.Process(self._child.pid)
        with process.oneshot():
            times = process.cpu_times()
            return times.user + times.system, process.memory_info().rss / 1e6

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        child, self._child = self._child, None
        if child is None:
            return
        child.terminate()
        try:
            child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _connected(self) -> bool:
        if self._child is None or self._child.poll() is not None:
            raise ServerError(f"the agent ended at start; its log: {self.log_path}")
        try:
            return all(broker["connected"] for broker in self.status()["brokers"])
        except EdgeError:
            return False
