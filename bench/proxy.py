"""A TCP proxy on loopback whose link can be cut and mended while both ends live on.

Use it so:

    async with Proxy(target_port=server.port) as link:
        link.port            # clients connect here
        await link.cut()     # connections break, new ones are refused
        await link.mend()    # the same port works again
"""

import asyncio
from types import TracebackType

from bench.ports import HOST, free_port, release_port

_CHUNK_BYTES = 64 * 1024


class Proxy:
    """Forwards bytes both ways, in order, until one end closes or the link is cut."""

    def __init__(self, *, target_port: int, port: int | None = None) -> None:
        self.port = free_port() if port is None else port
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        """Clients that are connected through the link now."""
        return len(self._tasks)

    @property
    def up(self) -> bool:
        """Whether the link takes connections."""
        return self._server is not None

    async def mend(self) -> None:
        """Takes connections from now on; without a preceding cut it does nothing."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, HOST, self.port)

    async def cut(self) -> None:
        """Resets every connection and refuses new ones; returns once all of them have ended."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=2.0)
        if server is not None:
            await server.wait_closed()

    async def __aenter__(self) -> "Proxy":
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
                both.create_task(_pump(reader, far_writer), name="proxy-up")
                both.create_task(_pump(far_reader, writer), name="proxy-down")
        finally:
            self._end(writer)
            self._end(far_writer)

    def _end(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Bytes from one end to the other until either is gone; then the other is told."""
    try:
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:  # reset by an end: what it sent before has been passed on
        writer.transport.abort()
