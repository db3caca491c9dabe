import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from edge_agent.errors import ConfigurationError
from edge_agent.observe import http
from edge_agent.observe.export import AgentMetrics, Readouts
from edge_agent.observe.http import HealthServer
from edge_agent.observe.metrics import Counters

HOST = "127.0.0.1"


@asynccontextmanager
async def server(**checks: Any) -> AsyncIterator[int]:
    arguments: dict[str, Any] = {
        "live": lambda: (True, {"oldest_undecided_s": 0.0}),
        "ready": lambda: (False, {"reasons": ["broker: not connected"]}),
        "metrics": AgentMetrics(Counters(), Readouts()).exposition,
    }
    health = HealthServer(host=HOST, port=0, **(arguments | checks))
    await health.start()
    try:
        yield int(health.url.rsplit(":", 1)[1])
    finally:
        await health.close()


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def get(port: int, path: str) -> tuple[int, bytes]:
    answer = await ask(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    return int(head.split(b" ")[1]), body


async def test_health_comes_with_its_reasons():
    async with server() as port:
        code, body = await get(port, "/livez")
        assert (code, msgspec.json.decode(body)) == (200, {"ok": True, "oldest_undecided_s": 0.0})
        code, body = await get(port, "/readyz?verbose")
        assert (code, msgspec.json.decode(body)) == (
            503,
            {"ok": False, "reasons": ["broker: not connected"]},
        )


async def test_metrics_are_served():
    async with server() as port:
        code, body = await get(port, "/metrics")
        assert code == 200
        assert b"edge_agent_messages_total 0.0\n" in body


@pytest.mark.parametrize(
    ("request_head", "code"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /livez HTTP/1.1\r\n\r\n", b"405"),
        (b"HEAD /livez HTTP/1.0\r\n\r\n", b"200"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"\xff\xfe \x00 \x01\r\n\r\n", b"400"),
    ],
)
async def test_other_requests_get_their_status(request_head: bytes, code: bytes):
    async with server() as port:
        assert (await ask(port, request_head)).split(b" ")[1] == code


async def test_an_endless_head_is_cut():
    async with server() as port:
        answer = await ask(port, b"GET /livez HTTP/1.1\r\nX: " + b"a" * 20_000)
        assert answer == b"" or b"431" in answer
        assert (await get(port, "/livez"))[0] == 200


async def test_a_slow_client_is_cut_and_others_are_served(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http, "_CLIENT_TIMEOUT_S", 0.2)
    async with server() as port:
        slow = [await asyncio.open_connection(HOST, port) for _ in range(5)]
        assert (await get(port, "/livez"))[0] == 200
        for reader, writer in slow:
            assert await asyncio.wait_for(_rest(reader), 2) == b""
            writer.close()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_connections_are_bounded():
    async with server() as port:
        held = [await asyncio.open_connection(HOST, port) for _ in range(16)]
        await asyncio.sleep(0.05)
        assert await ask(port, b"GET /livez HTTP/1.1\r\n\r\n") == b""
        for _, writer in held:
            writer.close()
        await asyncio.sleep(0.05)
        assert (await get(port, "/livez"))[0] == 200


async def test_a_port_in_use_is_told():
    async with server() as port:
        other = HealthServer(
            host=HOST,
            port=port,
            live=lambda: (True, {}),
            ready=lambda: (True, {}),
            metrics=lambda _: (b"", ""),
        )
        with pytest.raises(ConfigurationError, match=r"http\.port.*Choose another port"):
            await other.start()
        await other.close()
