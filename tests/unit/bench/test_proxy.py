"""bench/proxy: a link that can be cut and mended."""

import asyncio
from contextlib import suppress

import pytest

from bench.ports import HOST
from bench.proxy import Proxy


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1024):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def echo_port():
    server = await asyncio.start_server(_echo, HOST, 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def _ask(port: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(text)
        return await asyncio.wait_for(reader.readexactly(len(text)), 5)
    finally:
        writer.close()


async def test_bytes_pass_both_ways_and_ends_are_passed_on(echo_port):
    async with Proxy(target_port=echo_port) as link:
        assert await _ask(link.port, b"x" * 300_000) == b"x" * 300_000
        async with asyncio.timeout(5):
            while link.connections:
                await asyncio.sleep(0.01)


async def test_a_cut_breaks_what_is_open_and_refuses_what_is_new(echo_port):
    async with Proxy(target_port=echo_port) as link:
        reader, writer = await asyncio.open_connection(HOST, link.port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        await link.cut()
        assert not link.up
        assert link.connections == 0
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), 5)
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOST, link.port)


async def test_a_mended_link_works_on_the_same_port(echo_port):
    async with Proxy(target_port=echo_port) as link:
        port = link.port
        await link.cut()
        await link.mend()
        assert link.port == port
        assert await _ask(port, b"again") == b"again"


async def test_a_client_is_hung_up_on_when_nobody_is_behind_the_link():
    async with Proxy(target_port=1) as link:
        reader, writer = await asyncio.open_connection(HOST, link.port)
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
