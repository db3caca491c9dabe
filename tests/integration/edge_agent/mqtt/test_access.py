"""How a session identifies itself: passwords, certificates, MQTT 5."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trustme

from bench.servers import mosquitto, nats_server
from tests.integration.edge_agent.mqtt.field import payloads, sensor, station, until

PASSWORD_CONF = 'authorization { user: "field", password: "right" }'


async def test_a_wrong_password_is_told_and_the_right_one_works(tmp_path: Path):
    async with nats_server(tmp_path, mqtt=True, extra_conf=PASSWORD_CONF) as server:
        login: dict[str, Any] = {"username": "field", "password": "wrong"}
        async with station(server.mqtt_port, wait=False, **login) as here:
            await until(lambda: here.session.state().why.startswith("refused: "))
            assert not here.session.state().connected
        login["password"] = "right"
        async with station(server.mqtt_port, **login) as here:
            here.session.publish("site/own", b"1")
            assert payloads([await here.next_batch()]) == [b"1"]


def certificates(folder: Path) -> Path:
    """A throw-away authority, and certificates of it for the broker and the device."""
    folder.mkdir()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name in ("broker", "device"):
        issued = authority.issue_cert("127.0.0.1", "localhost", common_name=name)
        issued.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        for number, pem in enumerate(issued.cert_chain_pems):
            pem.write_to_path(str(folder / f"{name}.pem"), append=number > 0)
    return folder


@pytest.mark.needs_mosquitto
async def test_tls_with_a_client_certificate(tmp_path: Path):
    pki = certificates(tmp_path / "pki")
    conf = (
        f"cafile {pki}/ca.pem\ncertfile {pki}/broker.pem\nkeyfile {pki}/broker.key\n"
        "require_certificate true"
    )
    async with mosquitto(tmp_path, name="plain") as plain:
        port = plain.port
    text = (tmp_path / "plain" / "mosquitto.conf").read_text() + conf
    (tmp_path / "plain" / "mosquitto.conf").write_text(text)
    process = await asyncio.create_subprocess_exec(
        "mosquitto", "-c", str(tmp_path / "plain" / "mosquitto.conf"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        trust: dict[str, Any] = {"tls": True, "tls_ca": pki / "ca.pem"}
        async with station(port, wait=False, **trust) as stranger:
            await until(lambda: bool(stranger.session.state().why), timeout_s=10)
            await asyncio.sleep(0.3)
            assert not stranger.session.state().connected
        own: dict[str, Any] = {"tls_cert": pki / "device.pem", "tls_key": pki / "device.key"}
        async with station(port, **trust, **own) as here:
            sent = [b"%d" % number + bytes(20_000) for number in range(200)]
            for payload in sent:
                here.session.publish("site/own", payload, qos=1)
            assert payloads(await here.take(200)) == sent
        async with station(port, wait=False, tls=True, **own) as wary:
            await until(lambda: "verify failed" in wary.session.state().why)
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.needs_mosquitto
async def test_mqtt_5_keeps_its_session_too(tmp_path: Path):
    async with mosquitto(tmp_path) as server, sensor(server.port) as source:
        async with station(server.port, protocol="5") as here:
            await source.send_all("site/a", [b"1", b"2"], qos=1)
            await here.take(2, acknowledge=False)
            await here.vanish()
        async with station(server.port, protocol="5") as again:
            batches = await again.take(2)
            assert payloads(batches) == [b"1", b"2"]
            assert all(all(batch.dup) for batch in batches)


async def test_a_broker_without_mqtt_5_refuses_and_says_so(tmp_path: Path):
    async with (
        nats_server(tmp_path, mqtt=True) as server,
        station(server.mqtt_port, wait=False, protocol="5") as here,
    ):
        await until(lambda: bool(here.session.state().why))
        assert not here.session.state().connected
