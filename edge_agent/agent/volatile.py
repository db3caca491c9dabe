"""What stands in for the outbox while it cannot be opened: nothing is stored, so nothing is acknowledged.

The device goes on answering. Messages come in at QoS 0, over a session of its own that leaves nothing
behind; the lasting session stays at the broker, closed, and the broker keeps for it what comes. When
the outbox can be opened, the lasting session takes all of it up: nothing lost, nothing twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

from contract.messages import Watermark
from contract.status import Lane
from edge_agent.broker.options import BrokerOptions
from edge_agent.broker.session import BrokerSession
from edge_agent.types import Clock, Commit, LaneState, OutboxState, StoredRow

_SUFFIX = "-volatile"
_MOST_CLIENT_ID = 64
_POLL_S = 0.05
_GOODBYE_S = 3.0


class VolatileStore:
    """An outbox without a file: has the same methods, keeps nothing, and promises nothing.

    The future of a commit never ends, so what waits for it is never acknowledged; nobody holds it, so
    it is forgotten with the next one.
    """

    def __init__(self, why: Callable[[], str], *, quota_bytes: int) -> None:
        """`why` says why there is no outbox at present."""
        self._why = why
        self.epoch = secrets.token_hex(8)
        self.committed = asyncio.Event()
        self.revised_to = 0
        self._quota_bytes = quota_bytes
        self._closed = asyncio.Event()

    def submit(self, _commit: Commit) -> asyncio.Future[int]:
        """Forgets the commit; the future never ends."""
        return asyncio.get_running_loop().create_future()

    async def ready(self) -> None:
        """Always at once: nothing waits for a disk."""

    def checkpoint_due(self) -> bool:
        """Never."""
        return False

    async def read(
        self, _lane: Lane, *, after: int, max_bytes: int, max_rows: int
    ) -> Sequence[StoredRow]:
        """No rows."""
        del after, max_bytes, max_rows
        return []

    async def mark_sent(self, _lane: Lane, _seq: int) -> None:
        """Nothing was sent."""

    async def apply(self, _lane: Lane, _watermark: Watermark) -> None:
        """Says nothing of rows that lie in a file which cannot be opened."""

    async def set_aside(self, _lane: Lane, _seq: int, _reason: str) -> None:
        """There is no row."""

    async def mark_revised(self, seq: int) -> None:
        """Remembers it until the outbox is there, so that the hub does not repeat itself meanwhile."""
        self.revised_to = seq

    async def watch(self) -> None:
        """Ends when it is closed."""
        await self._closed.wait()

    async def close(self) -> None:
        """Ends `watch`."""
        self._closed.set()

    def state(self) -> OutboxState:
        """Empty, with the reason as its fault."""
        none = LaneState(1, 0, 0, 1, 0, 0, 0, None)
        return OutboxState(
            epoch=self.epoch,
            lanes=dict.fromkeys(Lane, none),
            bytes=0,
            quota_bytes=self._quota_bytes,
            shed={},
            dead_letters=0,
            commits=0,
            fault=f"cannot be opened: {self._why()}",
        )


def passing_session(options: BrokerOptions) -> BrokerOptions:
    """The same broker under another client id, in a session of which nothing remains."""
    client_id = options.client_id[: _MOST_CLIENT_ID - len(_SUFFIX)] + _SUFFIX
    return replace(options, client_id=client_id, clean_session=True, session_expiry_s=0)


async def hold_lasting_session(
    options: BrokerOptions, filters: Sequence[tuple[str, int]], *, clock: Clock
) -> None:
    """Makes the broker keep messages for the lasting session, then leaves it closed.

    It takes nothing in and acknowledges nothing: what the broker sends meanwhile comes again. Waits
    for a broker that is away as long as it takes.
    """
    session = BrokerSession(options, filters=filters, status_topic=None, clock=clock)
    session.stop()
    running = asyncio.create_task(session.run(), name=f"hold {options.name}")
    try:
        while True:
            if session.state().connected:
                break
            await asyncio.sleep(_POLL_S)
        await session.close(timeout_s=_GOODBYE_S)
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
