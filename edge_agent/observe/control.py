"""How the command line talks to the running agent: a Unix socket that only its user can open.

One request a connection: a JSON object and a newline, `{"command": "status", "args": {…}}`. The
reply is one too: `{"ok": true, "result": …}` or `{"ok": false, "error": "…"}`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import numpy as np

from edge_agent.errors import ConfigurationError, EdgeError
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.types import JsonObject

Handler = Callable[[JsonObject], Awaitable[object]]
"""Takes a command's arguments and returns its result; raises EdgeError to refuse."""

MAX_REQUEST_BYTES = 64 * 1024
MAX_REPLY_BYTES = 16 * 1024 * 1024
_MAX_CONNECTIONS = 8
_REQUEST_TIMEOUT_S = 5.0
_HANDLER_TIMEOUT_S = 30.0
_MAX_PATH_BYTES = 100


class AgentNotRunning(EdgeError):
    """No agent listens on the socket; the text says how to start one."""


class CannotListen(ConfigurationError):
    """The socket cannot be made where it should be: the folder is read-only, full, or another's."""


class CommandFailed(EdgeError):
    """The agent refused the command or failed at it; the text is its own."""


class _Request(msgspec.Struct):
    command: str
    args: JsonObject = {}


class ControlServer:
    """Serves registered commands to the user that runs the agent, and to nobody else."""

    def __init__(self, path: Path, handlers: Mapping[str, Handler]) -> None:
        self._path = path
        self._handlers = dict(handlers)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Listens from now on; raises ConfigurationError when another agent holds the socket.

        Raises CannotListen where the folder cannot hold one.
        """
        sock = await asyncio.to_thread(_listen, self._path)
        self._server = await asyncio.start_unix_server(
            self._serve, sock=sock, limit=MAX_REQUEST_BYTES
        )
        get_logger().info(Event.CONTROL_LISTENING, path=str(self._path))

    async def close(self) -> None:
        """Stops listening, cuts what is open and removes the socket file."""
        if self._server is None:
            return
        self._server.close()
        for writer in list(self._connections):
            writer.transport.abort()
        await self._server.wait_closed()
        with suppress(OSError):  # a folder that became read-only keeps it; the next start looks
            await asyncio.to_thread(self._path.unlink, missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._connections.add(writer)
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                try:
                    line = await reader.readuntil(b"\n")
                except asyncio.LimitOverrunError:
                    line = b""
            reply = await self._reply(line)
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                writer.write(reply + b"\n")
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # a client that is slow or has gone gets nothing
        finally:
            self._connections.discard(writer)
            if not writer.transport.is_closing():
                writer.transport.abort()

    async def _reply(self, line: bytes) -> bytes:
        try:
            request = msgspec.json.decode(line, type=_Request)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            return _encode({"ok": False, "error": f"not a request: {error}"})
        handler = self._handlers.get(request.command)
        if handler is None:
            known = ", ".join(sorted(self._handlers))
            error_text = f"no command {request.command!r}; this agent knows {known}"
            return _encode({"ok": False, "error": error_text})
        try:
            async with asyncio.timeout(_HANDLER_TIMEOUT_S):
                result = await handler(request.args)
        except EdgeError as error:
            return _encode({"ok": False, "error": str(error)})
        except (LookupError, OSError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            get_logger().error(Event.CONTROL_FAILED, command=request.command, why=why)
            return _encode({"ok": False, "error": f"the agent failed at it: {why}"})
        reply = _encode({"ok": True, "result": result})
        if len(reply) > MAX_REPLY_BYTES:
            return _encode({"ok": False, "error": "the answer is too large to be sent"})
        return reply


def ask_agent(
    path: Path, command: str, args: JsonObject | None = None, *, timeout_s: float = 10.0
) -> object:
    """The result of one command of the running agent; blocks, for use by the command line.

    Raises AgentNotRunning when nobody listens on `path`, CommandFailed when the agent says no.
    """
    request = _encode({"command": command, "args": args or {}}) + b"\n"
    deadline_s = time.monotonic() + timeout_s
    try:
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock,
            _short(path) as address,
        ):
            sock.settimeout(timeout_s)
            sock.connect(address)
            sock.sendall(request)
            answer = _receive(sock, deadline_s)
    except PermissionError as error:
        raise AgentNotRunning(
            f"{path} belongs to another user: run this as the user of the service, or with sudo"
        ) from error
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise AgentNotRunning(
            f"the agent is not running: nobody listens at {path}. "
            "Start it with: edge-agent run --config FILE"
        ) from error
    except OSError as error:
        raise CommandFailed(f"no answer from the agent at {path}: {error}") from error
    try:
        reply = msgspec.json.decode(answer, type=dict[str, object])
    except msgspec.DecodeError as error:
        raise CommandFailed(f"the agent at {path} ended before it had answered") from error
    if not reply.get("ok"):
        raise CommandFailed(str(reply.get("error", "the agent gave no reason")))
    return reply.get("result")


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """The path as a Unix socket can have it: a long one is reached through its open folder."""
    text = os.fspath(path)
    if len(text.encode()) <= _MAX_PATH_BYTES:
        yield text
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _receive(sock: socket.socket, deadline_s: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= MAX_REPLY_BYTES:
        sock.settimeout(max(0.001, deadline_s - time.monotonic()))
        part = sock.recv(65536)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _listen(path: Path) -> socket.socket:
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(sock.fileno(), 0o600)  # Linux gives the file the mode that the socket has here
        with _short(path) as address:
            sock.bind(address)
        path.chmod(0o600)
        sock.listen(_MAX_CONNECTIONS)
        sock.settimeout(0)
    except OSError as error:
        sock.close()
        raise CannotListen(f"cannot make the socket {path}: {error}") from error
    return sock


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise CannotListen(f"cannot look for the socket {path}: {error}") from error
    if not stat.S_ISSOCK(mode):
        raise ConfigurationError(f"{path} is in the way: it is not a socket; move it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            with _short(path) as address:
                probe.connect(address)
        except OSError:
            _unlink(path)
            return
    raise ConfigurationError(
        f"another agent runs with this data folder: it listens at {path}; stop it first"
    )


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise CannotListen(f"cannot remove the old socket {path}: {error}") from error


def _encode(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=_plain)


def _plain(value: object) -> object:
    """Numbers and arrays of numpy as plain ones, everything else as text."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value)
