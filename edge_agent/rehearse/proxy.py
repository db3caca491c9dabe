"""A TCP proxy on loopback whose link can be cut, shaped, stalled, half-opened and mended while both ends live on.

Use it so:

    async with Proxy(target_port=server.port) as link:
        link.port                               # clients connect here
        await link.cut()                        # connections break, new ones are refused
        link.reset()                            # connections break, new ones work
        link.half_open()                        # all stays connected, every byte is swallowed
        link.half_open(Way.DOWN)                # the server hears, nothing comes back
        link.stall()                            # bytes stay where they are, nothing is lost
        link.shape(Shape(latency_s=0.15, jitter_s=0.05, bytes_per_s=20_000, slice_bytes=7))
        await link.mend()                       # all of it is over; the same port works again
"""

from __future__ import annotations

import asyncio
import random
from enum import Enum
from types import TracebackType

from edge_agent.rehearse.ports import HOST, free_port, release_port
from edge_agent.rehearse.shaping import PLAIN, DelayLine, Shape

__all__ = ["Flow", "Proxy", "Shape", "Way"]

_CHUNK_BYTES = 64 * 1024
_END_S = 2.0


class Way(Enum):
    """A direction of the link, seen from the client."""

    UP = "up"
    DOWN = "down"


class Flow(Enum):
    """What happens to the bytes of a direction."""

    PASS = "pass"  # noqa: S105 - no password
    """They are forwarded in order."""
    SWALLOW = "swallow"
    """They are taken and thrown away, as behind a router that forgot the connection."""
    STALL = "stall"
    """They are not taken: the sender's window fills, and all of it arrives once the stall is over."""


class Proxy:
    """Forwards bytes both ways, in order, until one end closes or the link is cut.

    A connection that lost bytes to a half-open link is reset when the link is mended: a stream with a
    hole in it is worse than none.
    """

    def __init__(
        self, *, target_port: int, port: int | None = None, rng: random.Random | None = None
    ) -> None:
        """`rng` draws the jitter; without one it differs in every run."""
        self.port = free_port() if port is None else port
        self.forwarded_bytes = 0
        self.swallowed_bytes = 0
        self._target_port = target_port
        self._rng = rng or random.Random()  # noqa: S311 - jitter is no secret
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._torn: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._shape = PLAIN
        self._flows = dict.fromkeys(Way, Flow.PASS)
        self._moving = asyncio.Event()
        self._moving.set()

    @property
    def connections(self) -> int:
        """Clients that are connected through the link now."""
        return len(self._tasks)

    @property
    def up(self) -> bool:
        """Whether the link takes connections."""
        return self._server is not None

    async def mend(self) -> None:
        """Connections are taken and forwarded as they are from now on, on the same port."""
        self._shape = PLAIN
        self._set_flow(Flow.PASS, Way.UP, Way.DOWN)
        for writer in list(self._torn):
            writer.transport.abort()
        self._torn.clear()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, HOST, self.port)

    async def cut(self) -> None:
        """Resets every connection and refuses new ones; returns once all of them have ended."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        self.reset()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_END_S)
        if server is not None:
            await server.wait_closed()

    def reset(self) -> None:
        """Breaks every connection now; new ones are taken as before."""
        for writer in list(self._writers):
            writer.transport.abort()

    def half_open(self, *ways: Way) -> None:
        """Connections are kept and taken, and nothing is forwarded in the given directions (default: both)."""
        self._set_flow(Flow.SWALLOW, *(ways or tuple(Way)))

    def stall(self, *ways: Way) -> None:
        """Nothing is read in the given directions (default: both), and nothing is lost."""
        self._set_flow(Flow.STALL, *(ways or tuple(Way)))

    def shape(self, shape: Shape) -> None:
        """Delays, slows and slices what is read from now on, in both directions."""
        self._shape = shape

    async def __aenter__(self) -> Proxy:
        await self.mend()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.cut()
        release_port(self.port)

    def _set_flow(self, flow: Flow, *ways: Way) -> None:
        for way in ways:
            self._flows[way] = flow
        self._moving.set()  # those that wait look again
        self._moving = asyncio.Event()
        if Flow.STALL not in self._flows.values():
            self._moving.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = asyncio.get_running_loop().create_task(
            self._join(reader, writer), name=f"proxy-{self.port}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, self._target_port)
        except OSError:  # nobody listens there: the client sees its connection end
            self._end(writer)
            return
        self._writers.add(far_writer)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, far_writer, Way.UP), name="proxy-up")
                both.create_task(self._pump(far_reader, writer, Way.DOWN), name="proxy-down")
        finally:
            self._end(writer)
            self._end(far_writer)

    def _end(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        self._torn.discard(writer)
        writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way
    ) -> None:
        """Bytes from one end to the other until either is gone; then the other is told."""
        line = DelayLine(writer, rng=self._rng)
        try:
            async with asyncio.TaskGroup() as group:
                delivery = group.create_task(line.run(), name=f"proxy-{way.value}-delivery")
                while data := await self._read(reader, way):
                    if self._flows[way] is Flow.SWALLOW:
                        self.swallowed_bytes += len(data)
                        self._torn.add(writer)
                        continue
                    self.forwarded_bytes += len(data)
                    await line.put(data, shape=self._shape)
                await line.flush()
                delivery.cancel()
            if self._flows[way] is Flow.PASS and writer.can_write_eof():
                writer.write_eof()
        except* OSError:  # reset by an end: what it sent before has been passed on
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader, way: Way) -> bytes:
        """The next bytes, held back while the direction is stalled."""
        await self._flowing(way)
        data = await reader.read(_CHUNK_BYTES)
        await self._flowing(way)
        return data

    async def _flowing(self, way: Way) -> None:
        while self._flows[way] is Flow.STALL:
            await self._moving.wait()
