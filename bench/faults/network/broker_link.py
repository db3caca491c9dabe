"""The agent's own way to the broker, which breaks while those of the sensors do not.

A broker that is stopped has taken messages whose acknowledgement its sensors never see; they send them
again as new ones, and no device can tell. What is drilled is the agent, so its connection alone is cut.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.faults.field import STREAMS, Site
from bench.ports import HOST
from edge_agent.rehearse.proxy import Proxy


@asynccontextmanager
async def broker_link(site: Site) -> AsyncIterator[Proxy]:
    """From the agent's next start on, its broker is reached over the proxy; it has the drills' streams."""
    async with Proxy(target_port=site.broker.port) as way:
        url = f"mqtt://{HOST}:{way.port}"
        site.agent.configure(STREAMS, keys={"broker": {"url": url}})
        yield way
