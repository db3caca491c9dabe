"""rehearse/proxy: a link that can be cut, shaped, stalled, half-opened and mended."""

import asyncio
import random
import time
from contextlib import suppress

import pytest

from edge_agent.rehearse.ports import HOST
from edge_agent.rehearse.proxy import Proxy, Shape, Way


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


async def test_a_half_open_link_keeps_its_connections_and_says_nothing(echo_port):
    async with Proxy(target_port=echo_port) as link:
        reader, writer = await asyncio.open_connection(HOST, link.port)
        link.half_open()
        writer.write(b"into the void")
        late_reader, late_writer = await asyncio.open_connection(HOST, link.port)
        late_writer.write(b"me too")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(late_reader.read(1), 0.2)
        assert link.connections == 2
        assert link.swallowed_bytes == len(b"into the void" + b"me too")
        await link.mend()
        # A stream with a hole in it must not go on.
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), 5)
        assert await _ask(link.port, b"again") == b"again"
        writer.close()
        late_writer.close()


async def test_one_direction_alone_can_be_half_open(echo_port):
    async with Proxy(target_port=echo_port) as link:
        link.half_open(Way.DOWN)
        reader, writer = await asyncio.open_connection(HOST, link.port)
        writer.write(b"heard, and the answer is lost")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.2)
        assert link.forwarded_bytes == len(b"heard, and the answer is lost")
        assert link.swallowed_bytes == link.forwarded_bytes
        writer.close()


async def test_a_stall_loses_nothing(echo_port):
    async with Proxy(target_port=echo_port) as link:
        reader, writer = await asyncio.open_connection(HOST, link.port)
        link.stall()
        writer.write(b"patience")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.2)
        await link.mend()
        assert await asyncio.wait_for(reader.readexactly(8), 5) == b"patience"
        writer.close()


async def test_a_reset_breaks_what_is_open_and_takes_what_is_new(echo_port):
    async with Proxy(target_port=echo_port) as link:
        reader, writer = await asyncio.open_connection(HOST, link.port)
        writer.write(b"hello")
        await reader.readexactly(5)
        link.reset()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), 5)
        assert await _ask(link.port, b"again") == b"again"
        writer.close()


async def test_latency_applies_in_both_directions_and_keeps_the_order(echo_port):
    async with Proxy(target_port=echo_port, rng=random.Random(1)) as link:
        link.shape(Shape(latency_s=0.1, jitter_s=0.05))
        reader, writer = await asyncio.open_connection(HOST, link.port)
        begin = time.monotonic()
        for number in range(20):
            writer.write(b"%04d" % number)
            await writer.drain()
            await asyncio.sleep(0.002)
        got = await asyncio.wait_for(reader.readexactly(80), 5)
        assert got == b"".join(b"%04d" % number for number in range(20))
        assert time.monotonic() - begin >= 0.2
        writer.close()


async def test_a_rate_bounds_the_pace_and_slices_bound_the_pieces(echo_port):
    async with Proxy(target_port=echo_port) as link:
        link.shape(Shape(bytes_per_s=100_000, slice_bytes=1000))
        begin = time.monotonic()
        assert await _ask(link.port, b"y" * 20_000) == b"y" * 20_000
        assert time.monotonic() - begin >= 0.2


async def test_the_end_of_a_stream_comes_after_all_that_is_delayed(echo_port):
    async with Proxy(target_port=echo_port) as link:
        link.shape(Shape(latency_s=0.1))
        reader, writer = await asyncio.open_connection(HOST, link.port)
        writer.write(b"last words")
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), 5) == b"last words"
        writer.close()
