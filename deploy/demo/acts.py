"""The five acts: readings flow, the hub helps, the hub goes, the hub comes back, the books are compared."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import Final

from deploy.demo.configuration import DEADLINE_MS, DEVICES, PUMP, WORKSHOP, Device
from deploy.demo.ledger import Key, Ledger, compare, reading_key
from deploy.demo.observed import Observed, Outage
from deploy.demo.recordings import Truth, read_truth
from deploy.demo.sensors import Load, Sensor, make_sensors
from deploy.demo.site import DemoError, Site
from deploy.demo.stored import count_stored, declared_gaps, stored_readings
from deploy.demo.view import DeviceLine, Snapshot, View
from deploy.demo.watching import Bystander
from edge_agent.errors import EdgeError

HUB_HELPS_AT: Final = 0.2
"""Shares of the playing time at which the acts begin."""
LINK_CUT_AT: Final = 0.45
AWAY_SHARE: Final = 0.2
LEAST_AWAY_S: Final = 6.0
KILL_AFTER_S: Final = 1.5
DRAIN_S: Final = 25.0
"""How long the backlog may take after the sensors have ended."""
ONLINE: Final = "online"
_SHOW_EVERY_S: Final = 0.25
_ASK_EVERY_S: Final = 1.0


class Play:
    """One run on a site that has been started."""

    def __init__(self, site: Site, bystander: Bystander, view: View, load: Load) -> None:
        self._site = site
        self._bystander = bystander
        self._view = view
        self._load = load
        self._began_s = self._back_s = 0.0
        self._reconnected: dict[str, float] = {}
        self._snapshot = Snapshot(devices=[DeviceLine(device.name) for device in DEVICES])
        self.sensors: list[Sensor] = []

    async def run(self, *, started_s: float, stack: AsyncExitStack) -> Observed:
        """All acts; `stack` ends what was begun. Raises DemoError when a process dies on its own."""
        async with asyncio.TaskGroup() as group:
            showing = group.create_task(self._keep_showing(), name="demo-view")
            try:
                return await self._acts(started_s, stack)
            finally:
                showing.cancel()

    async def _acts(self, started_s: float, stack: AsyncExitStack) -> Observed:
        view, load = self._view, self._load
        truth = await asyncio.to_thread(read_truth, self._site.folder)
        self.sensors = make_sensors(self._site.folder, truth, load)
        view.act("Act 1", "sensors publish over MQTT, the devices answer")
        self._began_s = time.monotonic()
        for sensor in self.sensors:
            stack.push_async_callback(sensor.stop)
            await sensor.start(f"mqtt://{self._site.field.host}:{self._site.field.mqtt_port}")
        await self._until(HUB_HELPS_AT)
        view.act("Act 2", "windows that a device is unsure of are answered by the hub")
        await self._until(LINK_CUT_AT)
        view.note(f"{self._bystander.hub_answers} windows answered by the hub so far")
        outage = await self._outage()
        view.act("Act 4", "server and hub are back on their storage; the backlog drains")
        for sensor in self.sensors:
            await sensor.finished()
        view.note("the sensors have sent everything")
        view.note(await self._drain())
        view.act("Act 5", "the ledgers of sensors, broker and hub are compared")
        acknowledged = await asyncio.to_thread(self._acknowledged)
        ledger = await asyncio.to_thread(self._compare, acknowledged)
        return self._observed(
            truth, outage, ledger, acknowledged, seconds=time.monotonic() - started_s
        )

    async def _outage(self) -> Outage:
        site, view = self._site, self._view
        away_s = max(LEAST_AWAY_S, AWAY_SHARE * self._load.play_s)
        view.act("Act 3", "the link to the hub is cut, then the hub is killed; verdicts go on")
        cut_s = time.monotonic()
        self._snapshot.link_up = False
        await site.cut_link()
        await asyncio.sleep(KILL_AFTER_S)
        killed_s = time.monotonic()
        self._snapshot.hub_up = False
        await site.kill_hub()
        view.note("SIGKILL to the hub and to its server")
        await asyncio.sleep(max(0.0, cut_s + away_s - time.monotonic()))
        await site.bring_hub_back()
        self._snapshot.link_up = self._snapshot.hub_up = True
        self._back_s = time.monotonic()
        return Outage(cut_s=cut_s, killed_s=killed_s, back_s=self._back_s)

    async def _drain(self) -> str:
        """Waits until all is stored and every queued window has its revision; tells what came of it."""
        began_s = now_s = time.monotonic()
        wanted = sum(sensor.sent for sensor in self.sensors)
        while self._snapshot.stored < wanted or self._bystander.unrevised:
            if now_s - began_s > DRAIN_S:
                break  # the ledgers will say what is missing
            await asyncio.sleep(0.1)
            now_s = time.monotonic()
        stored = await asyncio.to_thread(count_stored, self._site.database)
        return drained(stored, wanted, self._bystander.unrevised, seconds=now_s - began_s)

    async def _until(self, share: float) -> None:
        due_s = self._began_s + share * self._load.play_s
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))

    # --- what is shown -----------------------------------------------------------------------

    async def _keep_showing(self) -> None:
        asked_s = 0.0
        while True:
            self._site.check()
            for sensor in self.sensors:
                sensor.check()
            now_s = time.monotonic()
            if now_s - asked_s >= _ASK_EVERY_S:
                asked_s = now_s
                await self._ask()
            seen = self._bystander
            if seen.fault:
                raise DemoError(seen.fault)
            self._snapshot.readings = seen.readings
            self._snapshot.by_tier = dict(seen.by_tier)
            self._snapshot.verdicts = len(seen.verdicts)
            self._snapshot.revisions = len(seen.revised)
            self._view.show(self._snapshot)
            await asyncio.sleep(_SHOW_EVERY_S)

    async def _ask(self) -> None:
        self._snapshot.stored = await asyncio.to_thread(count_stored, self._site.database)
        for device, line in zip(DEVICES, self._snapshot.devices, strict=True):
            try:
                status = await self._site.status(device)
            except EdgeError:
                line.link = "no answer"
                continue
            line.readings = status["readings"]
            line.verdicts = sum(status["verdicts"].values())
            self._follow(line, status["hub"]["health"])
            line.waiting = sum(
                max(0, lane["next_seq"] - 1 - lane["applied"])
                for lane in status["outbox"]["lanes"].values()
            )

    def _follow(self, line: DeviceLine, health: str) -> None:
        if health != line.link and line.link not in {"…", "no answer"}:
            self._view.note(f"{line.name}: the hub is {health}")
            if health == ONLINE and self._back_s:
                self._reconnected.setdefault(line.name, round(time.monotonic() - self._back_s, 1))
        line.link = health

    # --- what is compared --------------------------------------------------------------------

    def _acknowledged(self) -> list[Key]:
        return [
            reading_key(sensor.device.name, sensor.device.stream_of(topic), time_s)
            for sensor in self.sensors
            for time_s, topic in sensor.acknowledged()
        ]

    def _compare(self, acknowledged: list[Key]) -> Ledger:
        return compare(
            sent=sum(sensor.sent for sensor in self.sensors),
            acknowledged=acknowledged,
            stored=stored_readings(self._site.database),
            declared_gaps=declared_gaps(self._site.database),
        )

    def _observed(
        self,
        truth: Truth,
        outage: Outage,
        ledger: Ledger,
        acknowledged: list[Key],
        *,
        seconds: float,
    ) -> Observed:
        return Observed(
            verdicts=list(self._bystander.verdicts),
            revisions=list(self._bystander.revisions),
            due={device.name: _due(device, acknowledged) for device in DEVICES},
            deadline_ms={device.name: DEADLINE_MS for device in DEVICES},
            outage=outage,
            ledger=ledger,
            truth=truth,
            flow_device=PUMP.name,
            motion_device=WORKSHOP.name,
            seconds=seconds,
            reconnected_s=dict(self._reconnected),
        )


def drained(stored: int, sent: int, unrevised: int, *, seconds: float) -> str:
    """What is stored when the waiting for the backlog is over, in words."""
    if stored >= sent and not unrevised:
        return f"all of it is stored, {seconds:.1f} s after the last reading"
    return (
        f"time is over: {seconds:.1f} s after the last reading {stored:,} of {sent:,} are stored, "
        f"{unrevised:,} queued windows have no revision"
    )


def _due(device: Device, acknowledged: list[Key]) -> int:
    streams = Counter(stream for name, stream, _ in acknowledged if name == device.name)
    return sum(device.due(readings) for readings in streams.values())
