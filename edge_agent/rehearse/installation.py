"""The installation under drill: broker, server, link, hub, agent; started in order, stopped in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from edge_agent.agent.socket import ask_running_agent
from edge_agent.errors import EdgeError
from edge_agent.rehearse.children import Child
from edge_agent.rehearse.hub_side import HubSide, RealHub, StandInHub
from edge_agent.rehearse.proxy import Proxy
from edge_agent.rehearse.scratch import Copy, copy_outbox, scratch_tables, write_configuration
from edge_agent.rehearse.servers import Programs, free_ports, make_broker, make_server
from edge_agent.rehearse.shifted_clock import set_shift
from edge_agent.settings import Settings

_POLL_S: Final = 0.1


class NotReached(EdgeError):
    """Something that had to come true did not in its time; the text says what."""


@dataclass(frozen=True, slots=True)
class Status:
    """What the agent says of itself, as far as drills need it."""

    raw: dict[str, Any]

    @property
    def waiting(self) -> int:
        """Rows that the hub's database does not hold yet."""
        lanes = self.raw["outbox"]["lanes"].values()
        return int(sum(max(0, lane["next_seq"] - 1 - lane["applied"]) for lane in lanes))

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the hub's server."""
        return bool(self.raw["hub"]["connection"])

    @property
    def verdicts(self) -> int:
        """Verdicts given since the start."""
        return int(sum(self.raw["verdicts"].values()))

    @property
    def misses(self) -> int:
        """Verdicts that came after their deadline."""
        return int(self.raw["deadline_misses"])

    @property
    def readings(self) -> int:
        """Readings taken since the start."""
        return int(self.raw["readings"])

    @property
    def fault(self) -> str:
        """Why the outbox cannot write, or ""."""
        return str(self.raw["outbox"]["fault"])

    @property
    def health(self) -> str:
        """The state of the link."""
        return str(self.raw["hub"]["health"])

    @property
    def dead_letters(self) -> int:
        """Rows set aside since the file was made."""
        return int(self.raw["outbox"]["dead_letters"])

    @property
    def verdict_p99_ms(self) -> float:
        """From arrival to the verdict."""
        return float(self.raw["stages_ms"].get("total", {}).get("p99", 0.0))

    @property
    def loop_lag_p99_ms(self) -> float:
        """How late the event loop was."""
        return float(self.raw.get("loop_lag_ms", {}).get("p99", 0.0))


class Installation:
    """Everything that runs, in one scratch folder. Leaving the block stops all of it."""

    def __init__(
        self,
        settings: Settings,
        *,
        folder: Path,
        programs: Programs,
        real_data: Path | None,
        launcher: Sequence[str],
    ) -> None:
        """`real_data` is the data folder whose outbox is copied; it is read, never written."""
        self.folder = folder
        self.real = settings
        self.programs = programs
        broker, server, monitor, http = free_ports(4)
        self.broker_port = broker
        self.link = Proxy(target_port=server)
        self.broker = make_broker(programs, folder=folder, port=broker)
        self.server = make_server(programs, folder=folder, port=server, monitor_port=monitor)
        self.hub: HubSide
        if programs.cloud_hub is None:
            self.hub = StandInHub(folder, port=server)
        else:
            self.hub = RealHub(
                programs.cloud_hub,
                folder,
                device=settings.device.name,
                port=server,
                monitor_port=monitor,
                http_port=http,
            )
        self.data_dir = folder / "data"
        self.data_dir.mkdir()
        self.outbox_dir = self.data_dir / "outbox"
        self.copy = (
            Copy(why="there is no configuration")
            if real_data is None
            else copy_outbox(real_data / "outbox", self.outbox_dir)
        )
        tables, self.notes = scratch_tables(
            settings,
            data_dir=self.data_dir,
            broker_port=broker,
            hub_port=self.link.port,
            mqtt5=programs.mosquitto is not None,
        )
        self.config = folder / "edge-agent.toml"
        write_configuration(self.config, tables)
        # Not read back: the environment may overrule a file, and must not lead to the real agent.
        device = settings.device.model_copy(update={"data_dir": self.data_dir})
        self.settings = settings.model_copy(update={"device": device})
        self._shift = folder / "clock-shift"
        set_shift(self._shift, 0.0)
        launch = [*launcher, "--config", str(self.config), "--shift", str(self._shift)]
        self.agent = Child("agent", command=launch, home=folder / "agent", ready=self._agent_ready)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Installation:
        """Starts the servers; raises ChildFailed. The agent is started by the rehearsal."""
        try:
            for child in (self.broker, self.server, self.hub.child):
                self._stack.push_async_callback(child.stop)
                if child is self.hub.child:
                    await self._stack.enter_async_context(self.link)
                await child.start()
            self._stack.push_async_callback(self.agent.stop)
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

    def shift_clock(self, seconds: float) -> None:
        """The agent's wall clock is so far ahead from now on."""
        set_shift(self._shift, seconds)

    async def status(self) -> Status:
        """The agent's own words; raises EdgeError when it does not answer."""
        found: Any = await asyncio.to_thread(ask_running_agent, self.settings, "status")
        return Status(found)

    async def status_or_none(self) -> Status | None:
        """The same, None when it does not answer."""
        with suppress(EdgeError):
            return await self.status()
        return None

    async def status_when(
        self, condition: Callable[[Status], bool], *, timeout_s: float, what: str
    ) -> Status:
        """The status once a condition holds; raises NotReached that says what did not come true."""
        deadline_s = time.monotonic() + timeout_s
        last: Status | None = None
        while time.monotonic() < deadline_s:
            status = await self.status_or_none()
            if status is not None:
                last = status
                if condition(status):
                    return status
            if not self.agent.running:
                raise NotReached(f"{what}: the agent has ended{self.agent.said()}")
            await asyncio.sleep(_POLL_S)
        seen = (
            "it gave no status"
            if last is None
            else f"fault {last.fault!r}, {last.waiting} rows wait"
        )
        raise NotReached(f"{what}: not within {timeout_s:g} s ({seen})")

    async def _agent_ready(self) -> bool:
        status = await self.status_or_none()
        return status is not None and all(each["connected"] for each in status.raw["brokers"])
