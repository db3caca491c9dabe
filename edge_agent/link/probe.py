"""Tries the hub once, for `edge-agent check`."""

from __future__ import annotations

import asyncio
import uuid
from typing import Final

import numpy as np

from contract.encoding import encode
from contract.messages import InferRequest
from contract.status import Priority
from contract.tensors import pack_array
from edge_agent.errors import LinkError, NoResponders
from edge_agent.link.connection import Link
from edge_agent.link.inference import HubInference
from edge_agent.settings import HubSettings
from edge_agent.types import Clock

NOBODY: Final = "check"
"""A family that no hub has: what it answers does not matter, and it costs nothing."""


async def probe_hub(
    settings: HubSettings, *, device: str, clock: Clock, timeout_s: float
) -> str | None:
    """Why the hub does not answer within `timeout_s`; None when it does."""
    link = Link(settings.model_copy(update={"reconnect_jitter_s": 0.0}), device=device, clock=clock)
    changed = asyncio.Event()
    link.on_change = changed.set
    task = asyncio.create_task(link.run(), name="check-hub")
    try:
        async with asyncio.timeout(timeout_s):
            while not link.state().connection:
                changed.clear()
                await changed.wait()
            await _ask(HubInference(link, device=device), timeout_s=timeout_s)
    except TimeoutError:
        return link.state().why or f"no answer within {timeout_s:g} s"
    except NoResponders:
        return "its server answers, but no hub listens there"
    except LinkError as error:
        return str(error)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return None


async def _ask(hub: HubInference, *, timeout_s: float) -> None:
    features = pack_array(np.zeros((1, 1), dtype=np.float32))
    request = InferRequest(model=NOBODY, feature_digest="", features=features)
    await hub.ask(
        request_id=uuid.uuid4().hex,
        model=NOBODY,
        priority=Priority.STD,
        body=encode(request),
        budget_ms=timeout_s * 1e3,
        timeout_s=timeout_s,
    )
