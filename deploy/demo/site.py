"""The demo's processes: field broker, hub server, hub and devices; each real, each on loopback."""

from __future__ import annotations

import asyncio
import sysconfig
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from bench.ports import HOST, free_port
from bench.process import ServerProcess
from bench.servers import NatsServer, make_nats_server
from deploy.demo.configuration import DEVICES, Device, device_toml, hub_toml
from edge_agent.errors import EdgeError
from edge_agent.observe.control import ask_agent
from edge_agent.rehearse.proxy import Proxy

ROOT: Final = Path(__file__).resolve().parents[2]
_PROBE_S = 1.0


class DemoError(RuntimeError):
    """The demo cannot go on; the text says what to look at."""


class Site:
    """Everything that runs, in one folder. Leaving the block stops all of it, last started first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.link: Proxy
        self.field: NatsServer
        self.hub_server: NatsServer
        self.hub: ServerProcess
        self.agents: dict[str, ServerProcess] = {}
        self._stack = AsyncExitStack()
        self._away: set[str] = set()

    @property
    def database(self) -> Path:
        """The hub's database."""
        return self.folder / "hub" / "hub.db"

    @property
    def hub_config(self) -> Path:
        """The hub's configuration."""
        return self.folder / "cloud-hub.toml"

    def agent_config(self, device: Device) -> Path:
        """A device's configuration."""
        return self.folder / f"{device.name}.toml"

    async def __aenter__(self) -> Site:
        """Starts everything; raises ServerError when something does not come up."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def cut_link(self) -> None:
        """Between the devices and the hub nothing passes any more."""
        await self.link.cut()

    async def kill_hub(self) -> None:
        """SIGKILL to the hub and to its server: no goodbye, no flush."""
        self._away = {self.hub.name, self.hub_server.name}
        await asyncio.gather(self.hub.kill(), self.hub_server.kill())

    async def bring_hub_back(self) -> None:
        """Server and hub again, on the same storage, and the link mended."""
        await self.hub_server.start()
        await self.hub.start()
        self._away = set()
        await self.link.mend()

    async def status(self, device: Device) -> dict[str, Any]:
        """What `edge-agent status` shows of a device."""
        path = self._home(device) / "agent.sock"
        answer = await asyncio.to_thread(ask_agent, path, "status", timeout_s=5.0)
        assert isinstance(answer, dict)
        return answer

    def check(self) -> None:
        """Raises DemoError when a process has ended that should run."""
        for process in self._processes():
            if process.name not in self._away and not process.is_running():
                raise DemoError(f"{process.name} has ended; its log: {process.log_path}")

    def logs(self) -> list[Path]:
        """The log of every process."""
        return [process.log_path for process in self._processes()]

    async def _start(self) -> None:
        self.field = await make_nats_server(self.folder, name="field", mqtt=True, sync_always=False)
        self.hub_server = await make_nats_server(self.folder, name="hub-server")
        self.link = await self._stack.enter_async_context(Proxy(target_port=self.hub_server.port))
        await self._write_configurations()
        self.hub = ServerProcess(
            "hub",
            command=[_script("cloud-hub"), "serve", "--config", str(self.hub_config)],
            log_path=self.folder / "hub.log",
            probe=self._hub_ready,
            start_timeout_s=30.0,
        )
        for device in DEVICES:
            self.agents[device.name] = ServerProcess(
                device.name,
                command=[_script("edge-agent"), "run", "--config", str(self.agent_config(device))],
                log_path=self.folder / f"{device.name}.log",
                probe=lambda device=device: self._agent_ready(device),  # type: ignore[misc]
                start_timeout_s=30.0,
            )
        await asyncio.gather(self._started(self.field), self._started(self.hub_server))
        await asyncio.gather(
            *(self._started(process) for process in (self.hub, *self.agents.values()))
        )

    async def _started(self, process: ServerProcess) -> None:
        self._stack.push_async_callback(process.stop)
        await process.start()

    def _processes(self) -> list[ServerProcess]:
        return [self.field, self.hub_server, self.hub, *self.agents.values()]

    def _home(self, device: Device) -> Path:
        return self.folder / device.name

    async def _write_configurations(self) -> None:
        self._http_port = free_port()
        texts = {
            self.hub_config: hub_toml(
                home=self.folder / "hub",
                models=ROOT / "models",
                url=self.hub_server.url,
                monitor_url=self.hub_server.monitor_url,
                http_port=self._http_port,
            )
        }
        for device in DEVICES:
            texts[self.agent_config(device)] = device_toml(
                device,
                home=self._home(device),
                models=ROOT / "models",
                broker_url=f"mqtt://{HOST}:{self.field.mqtt_port}",
                hub_url=f"nats://{HOST}:{self.link.port}",
            )
        (self.folder / "hub").mkdir()
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")

    async def _agent_ready(self, device: Device) -> bool:
        try:
            status = await self.status(device)
        except EdgeError:
            return False
        return all(broker["connected"] for broker in status["brokers"])

    async def _hub_ready(self) -> bool:
        request = f"GET /readyz HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode()
        try:
            async with asyncio.timeout(_PROBE_S):
                reader, writer = await asyncio.open_connection(HOST, self._http_port)
                try:
                    writer.write(request)
                    head = await reader.readline()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False
        return b" 200 " in head


def _script(name: str) -> str:
    return str(Path(sysconfig.get_path("scripts"), name))
