import asyncio
import contextlib
import socket
import time
from pathlib import Path

import pytest

from edge_agent.observe.loop_lag import watch_loop_lag
from edge_agent.observe.metrics import Counters
from edge_agent.observe.sd_notify import Supervisor


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(tmp_path: Path, abstract: bool):
    name = f"\0{tmp_path}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name)
        listener.settimeout(1)
        supervisor = Supervisor(name.replace("\0", "@"))
        supervisor.ready()
        supervisor.alive()
        supervisor.stopping()
        said = [listener.recv(100) for _ in range(3)]
    assert said == [b"READY=1", b"WATCHDOG=1", b"STOPPING=1"]


@pytest.mark.parametrize("address", [None, "", "/nowhere/at/all"])
def test_without_systemd_nothing_happens(address: str | None):
    Supervisor(address).ready()


@pytest.mark.allow_blocking("the test blocks the loop to see that it is noticed")
async def test_a_blocked_loop_is_noticed():
    counters = Counters()
    watch = asyncio.create_task(watch_loop_lag(counters, interval_s=0.01))
    await asyncio.sleep(0.03)
    time.sleep(0.2)
    await asyncio.sleep(0.03)
    watch.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watch
    assert counters.loop_lag.count >= 3
    assert counters.loop_lag.max_ms > 100
