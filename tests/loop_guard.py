"""The event-loop guard: a call that blocks the loop raises BlockingError where it happens.

Two reaches. Sleeping, sockets, locks and SQLite are refused in a running loop whoever calls them,
the test included. Calls on files are refused where the product's own code is on the stack; a test
may prepare and read its files. `@pytest.mark.allow_blocking("reason")` switches it off.
"""

from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster
from blockbuster.blockbuster import BlockBusterFunction

PRODUCT = ["contract", "edge_agent", "cloud_hub"]
EVERYWHERE = ("time.", "socket.", "ssl.", "sqlite3.", "threading.", "builtins.")


class _AnyFunction:
    """Matches every function of a file."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())


# Files whose blocking is by design; each with its reason.
_EXEMPT = (
    "psutil/_pslinux.py",  # reads /proc, which is memory, in microseconds
    "psutil/_common.py",
    "edge_agent/rehearse/ports.py",  # the same, for one line
    "concurrent/futures/thread.py",  # a pool's own bookkeeping lock, held for microseconds
    "structlog/_output.py",  # a log line is written before the work goes on, by design
    "_pytest/logging.py",
    "_pytest/capture.py",
)


def _build() -> list[BlockBusterFunction]:
    everywhere = BlockBuster().functions
    product = BlockBuster(PRODUCT).functions
    chosen = [
        everywhere[name] if name.startswith(EVERYWHERE) else product[name] for name in everywhere
    ]
    for function in chosen:
        for filename in _EXEMPT:
            function.can_block_in(filename, _AnyFunction())
    return chosen


_FUNCTIONS: list[BlockBusterFunction] = []


@pytest.fixture(autouse=True)
def event_loop_guard(request: pytest.FixtureRequest) -> Iterator[None]:
    marker = request.node.get_closest_marker("allow_blocking")
    if marker is not None:
        if not marker.args or not str(marker.args[0]).strip():
            pytest.fail("allow_blocking needs its reason: @pytest.mark.allow_blocking('why')")
        yield
        return
    if not _FUNCTIONS:
        _FUNCTIONS.extend(_build())
    for function in _FUNCTIONS:
        function.activate()
    try:
        yield
    finally:
        for function in _FUNCTIONS:
            function.deactivate()
