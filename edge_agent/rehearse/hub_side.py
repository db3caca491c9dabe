"""The hub of a rehearsal as the judge sees it: started, and asked what it holds; a real one or the stand-in."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from edge_agent.errors import EdgeError
from edge_agent.observe.control import ask_agent
from edge_agent.rehearse.children import Child, python
from edge_agent.rehearse.hub_ledger import MAX_PAGE
from edge_agent.rehearse.payloads import Key
from edge_agent.rehearse.servers import http_text, is_well, write_hub_configuration

_QUERY_S: Final = 60.0
_STORED: Final = re.compile(rb"^cloud_hub_ingest_readings_total ([0-9.e+]+)$", re.MULTILINE)
_MOST_READINGS: Final = 1_000_000


class HubSilent(EdgeError):
    """The hub cannot be asked; the text says why."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a hub holds of the device: how often each reading, and the declared gaps in telemetry."""

    readings: Counter[Key] = field(default_factory=Counter)
    gap_records: int = 0
    gap_readings: int = 0
    untrusted: int = 0
    """Readings whose time was flagged."""

    def since(self, before: Holdings) -> Holdings:
        """What came after an earlier look."""
        return Holdings(
            self.readings - before.readings,
            self.gap_records - before.gap_records,
            self.gap_readings - before.gap_readings,
            self.untrusted - before.untrusted,
        )


class HubSide(Protocol):
    """One hub."""

    child: Child

    async def count(self) -> int:
        """Readings stored for the first time since it started; cheap. Raises HubSilent."""

    async def holdings(self) -> Holdings:
        """What it holds now; raises HubSilent."""


class StandInHub:
    """The built-in hub, asked through its socket."""

    def __init__(self, folder: Path, *, port: int) -> None:
        home = folder / "hub"
        home.mkdir(parents=True, exist_ok=True)
        self._socket = home / "hub.sock"
        self._known: Counter[Key] = Counter()
        self._last = 0
        self._untrusted = 0
        command = python(
            "hub", "--port", port, "--ledger", home / "ledger.db", "--socket", self._socket
        )
        self.child = Child("hub", command=command, home=home, ready=self._ready)

    async def count(self) -> int:
        """Readings stored."""
        counts: Any = await self._ask("counts", {})
        return int(counts["readings"])

    async def holdings(self) -> Holdings:
        """What it holds now; only what is new travels."""
        while True:
            page: Any = await self._ask("readings", {"after": self._last})
            self._known.update((stream, value) for _, stream, _, value, _ in page)
            self._untrusted += sum(1 for *_, flags in page if flags)
            if page:
                self._last = page[-1][0]
            if len(page) < MAX_PAGE:
                break
        gaps: Any = await self._ask("gaps", {})
        return Holdings(Counter(self._known), *_sum_gaps(gaps), untrusted=self._untrusted)

    async def _ready(self) -> bool:
        try:
            counts: Any = await self._ask("counts", {})
        except HubSilent:
            return False
        return bool(counts["ready"])

    async def _ask(self, command: str, args: dict[str, Any]) -> object:
        try:
            return await asyncio.to_thread(ask_agent, self._socket, command, args, timeout_s=20.0)
        except EdgeError as error:
            raise HubSilent(f"the stand-in hub: {error}") from error


class RealHub:
    """`cloud-hub serve`, asked through its command line."""

    def __init__(
        self,
        program: str,
        folder: Path,
        *,
        device: str,
        port: int,
        monitor_port: int,
        http_port: int,
    ) -> None:
        home = folder / "hub"
        home.mkdir(parents=True, exist_ok=True)
        self._program = program
        self._http_port = http_port
        self._device = device
        self._config = home / "cloud-hub.toml"
        write_hub_configuration(
            self._config, port=port, monitor_port=monitor_port, http_port=http_port
        )
        command = [program, "serve", "--config", str(self._config)]
        self.child = Child(
            "hub", command=command, home=home, ready=lambda: is_well(http_port, "/readyz")
        )

    async def count(self) -> int:
        """Readings stored, as its metrics tell."""
        text = await http_text(self._http_port, "/metrics")
        found = _STORED.search(text)
        if found is None:
            raise HubSilent("the hub's metrics do not say how many readings it has stored")
        return int(float(found.group(1)))

    async def holdings(self) -> Holdings:
        """What it holds now, all of it."""
        command = [
            self._program, "telemetry", "query", "--device", self._device, "--json",
            "--limit", str(_MOST_READINGS), "--config", str(self._config),
        ]  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(_QUERY_S):
                out, err = await process.communicate()
        except TimeoutError:
            raise HubSilent(f"cloud-hub telemetry query took over {_QUERY_S:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            if b"has been heard of" in err:
                return Holdings()
            raise HubSilent(f"cloud-hub telemetry query: {err.decode()[-500:]}")
        return await asyncio.to_thread(_holdings_in, out)


def _holdings_in(text: bytes) -> Holdings:
    answer = json.loads(text)
    keys: Iterator[Key] = (
        (str(each["stream"]), next(iter(each["values"].values()), None) or 0.0)
        for each in answer["readings"]
    )
    untrusted = sum(1 for each in answer["readings"] if each.get("flags"))
    return Holdings(Counter(keys), *_sum_gaps(answer["gaps"]), untrusted=untrusted)


def _sum_gaps(gaps: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """How many records of given-up readings there are, and of how many readings."""
    records = list(gaps)
    return len(records), sum(each["readings"] for each in records)
