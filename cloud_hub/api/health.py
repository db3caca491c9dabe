"""/livez, /readyz and /metrics, served from a thread of their own: a stuck event loop is seen, not shared.

The server is the standard library's and the metrics page prometheus_client's; there is no framework here
until there is an API that needs one.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app

from cloud_hub.errors import StartRefused
from cloud_hub.settings import HttpSettings

REQUEST_LIMIT_S: Final = 5

Check = Callable[[], Mapping[str, bool | str]]
"""Named facts, and texts that say why; the hub is well when no fact is false. Called from another thread,
so it only reads."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_LIMIT_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Says nothing: a probe a second would be the whole log."""


class HealthServer:
    """Serves between `start` and `stop`."""

    def __init__(
        self, settings: HttpSettings, *, alive: Check, ready: Check, registry: CollectorRegistry
    ) -> None:
        self._settings = settings
        self._pages: dict[str, Check] = {"/livez": alive, "/readyz": ready}
        self._metrics = make_wsgi_app(registry)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None
        return self._server.server_port

    async def start(self) -> None:
        """Listens; raises StartRefused when the address is taken."""
        await asyncio.to_thread(self._start)

    async def stop(self) -> None:
        """Stops listening."""
        await asyncio.to_thread(self._stop)

    def _start(self) -> None:
        host, port = self._settings.host, self._settings.port
        try:
            self._server = _Server((host, port), _Handler)
        except OSError as error:
            raise StartRefused(
                f"cannot listen on {host}:{port}: {error.strerror}. "
                "Set [http] host and port to a free address, or enabled = false."
            ) from error
        self._server.set_app(self._answer)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.2},
            name="http",
            daemon=True,
        )
        self._thread.start()

    def _stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join(REQUEST_LIMIT_S)
            self._server.server_close()

    def _answer(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            return _text(start, "405 Method Not Allowed", {"error": "only GET"})
        if path == "/metrics":
            page: Iterable[bytes] = self._metrics(environ, start)
            return page
        check = self._pages.get(path)
        if check is None:
            return _text(start, "404 Not Found", {"pages": [*self._pages, "/metrics"]})
        facts = dict(check())
        well = not any(fact is False for fact in facts.values())
        return _text(start, "200 OK" if well else "503 Service Unavailable", {"ok": well, **facts})


def _text(start: StartResponse, status: str, content: Mapping[str, object]) -> Iterable[bytes]:
    body = json.dumps(content).encode()
    start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
