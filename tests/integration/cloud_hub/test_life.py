"""The hub's start, refusals, outages and ends, on a real nats-server."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import httpx
import pytest
from nats.errors import Error as NatsError

from bench.servers import NatsServer, make_nats_server, nats_server
from cloud_hub.errors import StartRefused
from cloud_hub.hub.crew import Role
from cloud_hub.hub.life import Hub
from cloud_hub.store.fleet_queries import show_device
from contract.status import Lane
from tests.ack_subjects import both_ack_subjects
from tests.integration.cloud_hub.rig import (
    Device,
    device,
    eventually,
    hub_settings,
    running_hub,
    until,
    until_read,
)
from tests.unit.cloud_hub.sample_rows import raw_row

DYING_HUB = Path(__file__).with_name("dying_hub.py")


async def _refusal(hub: Hub) -> StartRefused:
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.timeout(20):
            await hub.run()
    error = caught.value.exceptions[0]
    assert isinstance(error, StartRefused)
    return error


async def test_a_server_that_does_not_sync_is_refused_and_the_text_says_what_to_do(tmp_path: Path):
    async with nats_server(tmp_path, sync_always=False) as server:
        error = await _refusal(Hub(hub_settings(server, tmp_path)))
        assert "sync_interval: always" in str(error)
        assert "allow_unsafe_sync" in str(error)
        assert error.exit_code == 1
        unsafe = {"allow_unsafe_sync": True}
        async with running_hub(hub_settings(server, tmp_path, nats=unsafe)) as hub:
            assert all(hub.ready().values())


async def test_a_hub_without_its_server_keeps_trying_and_serves_when_it_comes(tmp_path: Path):
    server = await make_nats_server(tmp_path)
    async with running_hub(hub_settings(server, tmp_path), wait=False) as hub:
        await until(lambda: hub.ready()["models_warm"])
        await asyncio.sleep(0.3)
        assert not hub.ready()["nats_connected"]
        await server.start()
        try:
            await until(lambda: all(hub.ready().values()))
            async with device(server) as d1:
                await d1.publish([raw_row(1)], Lane.TEL)
                await eventually(
                    lambda: d1.state({Lane.TEL: 1}), lambda a: a.watermarks[Lane.TEL].applied == 1
                )
        finally:
            await server.stop()


@both_ack_subjects
async def test_a_frozen_server_is_noticed_and_its_rows_are_stored_once_it_thaws(
    hub_nats: NatsServer, tmp_path: Path, monkeypatch
):
    from cloud_hub.bus import connection

    monkeypatch.setattr(connection, "PROBE_EVERY_S", 0.2)
    monkeypatch.setattr(connection, "PROBE_LIMIT_S", 0.5)
    async with running_hub(hub_settings(hub_nats, tmp_path)) as hub:
        hub_nats.freeze()
        await until(lambda: not hub.ready()["consumers_ready"])
        hub_nats.thaw()
        await until(lambda: all(hub.ready().values()))
        async with device(hub_nats) as d1:
            await d1.publish([raw_row(1)], Lane.TEL)
            await eventually(
                lambda: d1.state({Lane.TEL: 1}), lambda a: a.watermarks[Lane.TEL].applied == 1
            )


@both_ack_subjects
async def test_a_kill_between_commit_and_acknowledgement_stores_nothing_twice(
    hub_nats: NatsServer, tmp_path: Path
):
    settings = hub_settings(hub_nats, tmp_path)
    async with running_hub(settings):
        pass
    config = tmp_path / "hub.toml"
    config.write_text(
        f'[nats]\nurl = "{hub_nats.url}"\nmonitor_url = "{hub_nats.monitor_url}"\n'
        f'max_stream_bytes = 67108864\n[store]\ndata_dir = "{tmp_path / "hub"}"\n'
        "[http]\nenabled = false\n[ingest]\nack_wait_s = 1\n"
    )
    async with device(hub_nats) as d1:
        for first in range(1, 41, 4):
            await d1.publish([raw_row(seq) for seq in range(first, first + 4)], Lane.TEL)
        dying = await asyncio.create_subprocess_exec(
            sys.executable, str(DYING_HUB), str(config), stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(30):
            _, said = await dying.communicate()
        assert dying.returncode == -signal.SIGKILL, said.decode()
        stored = await until_read(
            settings, lambda c: show_device(c, "d1"), lambda found: found is not None
        )
        assert stored["streams"][0]["readings"] > 0
        async with running_hub(settings):
            await eventually(
                lambda: d1.state({Lane.TEL: 40}),
                lambda a: (
                    a.watermarks[Lane.TEL].applied == 40 and a.watermarks[Lane.TEL].pending == 0
                ),
            )
        found = await until_read(settings, lambda c: show_device(c, "d1"), lambda _: True)
    assert found["streams"][0]["readings"] == 160


async def test_sigterm_drains_and_ends_with_zero_and_systemd_is_told(
    hub_nats: NatsServer, tmp_path: Path
):
    told: asyncio.Queue[bytes] = asyncio.Queue(8)
    alive: list[bytes] = []
    address = str(tmp_path / "notify")

    class Listener(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: object) -> None:
            alive.append(data) if data == b"WATCHDOG=1" else told.put_nowait(data)

    import socket

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        Listener, local_addr=address, family=socket.AF_UNIX
    )
    config = tmp_path / "hub.toml"
    config.write_text(
        f'[nats]\nurl = "{hub_nats.url}"\nmonitor_url = "{hub_nats.monitor_url}"\n'
        f'max_stream_bytes = 67108864\n[store]\ndata_dir = "hub"\n[http]\nport = 0\n'
    )
    hub = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cloud_hub", "serve", "--config", str(config)),
        env={**os.environ, "NOTIFY_SOCKET": address},
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        assert await told.get() == b"READY=1"
        hub.terminate()
        assert await told.get() == b"STOPPING=1"
        _, said = await hub.communicate()
    transport.close()
    assert alive
    assert hub.returncode == 0, said.decode()
    assert b"hub_stopped" in said


async def test_health_pages_tell_alive_ready_and_metrics(hub_nats: NatsServer, tmp_path: Path):
    settings = hub_settings(hub_nats, tmp_path, http={"enabled": True, "port": 0})
    hub, ports = Hub(settings), list[int]()
    running = asyncio.create_task(hub.run(on_listening=ports.append), name="hub")
    await until(lambda: all(hub.ready().values()))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{ports[0]}", trust_env=False) as http:
        live, ready = await http.get("/livez"), await http.get("/readyz")
        metrics, other = await http.get("/metrics"), await http.get("/admin")
        posted = await http.post("/livez")
    assert (live.status_code, ready.status_code, other.status_code, posted.status_code) == (
        200, 200, 404, 405,
    )  # fmt: skip
    assert ready.json()["consumers_ready"] is True
    assert "cloud_hub_ingest_readings_total 0.0" in metrics.text
    hub.stop()
    await running


async def test_roles_can_be_served_apart(hub_nats: NatsServer, tmp_path: Path):
    settings = hub_settings(hub_nats, tmp_path)
    async with (
        running_hub(settings, roles=frozenset({Role.INGEST})),
        running_hub(settings, roles=frozenset({Role.FLEET})),
        device(hub_nats) as d1,
    ):
        await d1.publish([raw_row(1)], Lane.TEL)
        await eventually(
            lambda: d1.state({Lane.TEL: 1}), lambda a: a.watermarks[Lane.TEL].applied == 1
        )


async def test_a_stream_that_would_drop_data_is_refused(hub_nats: NatsServer, tmp_path: Path):
    async with device(hub_nats) as d1:
        await d1.client.jetstream().add_stream(name="EDGE_TEL", subjects=["edge.v1.*.tel"])
    error = await _refusal(Hub(hub_settings(hub_nats, tmp_path)))
    assert "EDGE_TEL exists with retention" in str(error)


async def test_a_hub_whose_log_nobody_reads_any_more_goes_on(hub_nats: NatsServer, tmp_path: Path):
    config = tmp_path / "hub.toml"
    config.write_text(
        f'[nats]\nurl = "{hub_nats.url}"\nmonitor_url = "{hub_nats.monitor_url}"\n'
        "max_stream_bytes = 67108864\nreconnect_jitter_s = 0.1\n"
        '[store]\ndata_dir = "hub"\n[http]\nenabled = false\n'
    )
    reader, writer = os.pipe()
    hub = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cloud_hub", "serve", "--config", str(config)), stderr=writer
    )
    os.close(writer)
    os.close(reader)
    try:
        async with device(hub_nats) as d1:
            await eventually(lambda: _stored(d1, 1), lambda applied: applied == 1, limit_s=30)
        await hub_nats.restart()
        async with device(hub_nats) as d1:
            await eventually(lambda: _stored(d1, 2), lambda applied: applied == 2)
        assert hub.returncode is None
        hub.terminate()
        async with asyncio.timeout(20):
            assert await hub.wait() == 0
    finally:
        if hub.returncode is None:
            hub.kill()
            await hub.wait()


async def _stored(d1: Device, seq: int) -> int:
    """Sends a row, and returns what is applied; 0 while nobody takes it or answers."""
    try:
        await d1.publish([raw_row(seq)], Lane.TEL)
        return (await d1.state({Lane.TEL: seq})).watermarks[Lane.TEL].applied
    except NatsError:
        await asyncio.sleep(0.1)
        return 0
